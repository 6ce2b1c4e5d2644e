package observe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	chapter   = regexp.MustCompile(`(?m)^## ([A-Z]\w+)$`)
	question  = regexp.MustCompile(`“([^”]+\?)”`)
	logLine   = regexp.MustCompile("`\"msg\":\"([^\"]+)\"`")
	alertName = regexp.MustCompile(`\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b`)
)

// TestTheRunbookKnowsEachAlert wants a chapter for each, which says what it means, where
// to look, what fixes it and what makes it worse.
func TestTheRunbookKnowsEachAlert(t *testing.T) {
	t.Parallel()
	chapters := runbook(t)
	for _, a := range alerts(t) {
		text, exists := chapters[a.Name]
		for _, part := range []string{"**Means:**", "**Look at:**", "**Fix:**", "**Do not:**"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: chapter %v, without %s", a.Name, exists, part)
			}
		}
		delete(chapters, a.Name)
	}
	for name := range chapters {
		t.Errorf("there is a chapter on %s, which is not an alert", name)
	}
}

// TestTheRunbookNamesExistingPanelsAndLogMessages compares the runbook with dashboards and code.
func TestTheRunbookNamesExistingPanelsAndLogMessages(t *testing.T) {
	t.Parallel()
	var titles []string
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			titles = append(titles, p.Title)
		}
	}
	messages := literals(t)
	for name, text := range runbook(t) {
		for _, m := range question.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(titles, m[1]) {
				t.Errorf("%s: there is no panel %q", name, m[1])
			}
		}
		for _, m := range logLine.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(messages, m[1]) {
				t.Errorf("%s: nothing logs %q", name, m[1])
			}
		}
	}
}

func TestPanelsNameAlertsThatExist(t *testing.T) {
	t.Parallel()
	var names []string
	for _, a := range alerts(t) {
		names = append(names, a.Name)
	}
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, name := range alertName.FindAllString(p.Description, -1) {
				if !slices.Contains(names, name) {
					t.Errorf("%q names %s, which is not an alert", p.Title, name)
				}
			}
		}
	}
}

// runbook returns the chapters by the names of their alerts.
func runbook(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/runbook.md")
	must(t, err)
	chapters := map[string]string{}
	places := chapter.FindAllSubmatchIndex(text, -1)
	for i, place := range places {
		end := len(text)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		chapters[string(text[place[2]:place[3]])] = string(text[place[1]:end])
	}
	return chapters
}

// literals returns the string literals in the code of the library and the services, with all log
// messages.
func literals(t *testing.T) (found []string) {
	t.Helper()
	for _, folder := range []string{"outbox", "order-service", "notification-service", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				found = append(found, literalsOf(file)...)
			}
			return err
		})
		must(t, err)
	}
	return found
}

func literalsOf(file *ast.File) (found []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				found = append(found, text)
			}
		}
		return true
	})
	return found
}
