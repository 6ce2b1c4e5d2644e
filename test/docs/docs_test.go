package docs_test

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.com/transactional-outbox/test/docs"
	"example.com/transactional-outbox/test/env/check"
)

const root = "../.."

// checks return what is not true on a page.
var checks = map[string]func(docs.Page) []string{
	"links": links, "quotes": quotes, "names": names, "promises": promises, "settings": settings, "commands": commands, "length": length,
}

// TestThePagesAreTrue compares the pages with the repository.
func TestThePagesAreTrue(t *testing.T) {
	t.Parallel()
	paths, err := docs.All(root)
	must(t, err)
	others, err := fs.Glob(os.DirFS(root), "deploy/*/README.md")
	must(t, err)
	for _, path := range slices.Concat(paths, others, []string{"CONTRIBUTING.md"}) {
		page, err := docs.ReadFile(root, path)
		must(t, err)
		for _, check := range checks {
			for _, problem := range check(page) {
				t.Errorf("%s: %s", path, problem)
			}
		}
	}
}

// links requires that linked files and headings exist. It requests no external addresses.
func links(page docs.Page) (problems []string) {
	for _, link := range page.Links {
		target, err := url.Parse(link.Target)
		if err == nil && target.IsAbs() {
			continue
		}
		if err == nil {
			err = linked(page, target)
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("line %d: %s: %v", link.Line, link.Target, err))
		}
	}
	return problems
}

func linked(page docs.Page, target *url.URL) error {
	if target.Path != "" {
		name := path.Join(path.Dir(page.Path), target.Path)
		if _, err := os.Stat(filepath.Join(root, name)); err != nil || !filepath.IsLocal(name) {
			return fmt.Errorf("no such file")
		}
		if target.Fragment == "" {
			return nil
		}
		var err error
		if page, err = docs.ReadFile(root, name); err != nil {
			return err
		}
	}
	if !slices.Contains(page.Anchors, target.Fragment) {
		return fmt.Errorf("no such heading")
	}
	return nil
}

// quotes requires that code after a line "[FILE](FILE):" is in this file. Go and SQL need such a line:
// with a blank line between, or without the colon, a quote would not be checked.
func quotes(page docs.Page) (problems []string) {
	for _, block := range page.Blocks {
		if block.From == "" {
			if block.Language == "go" || block.Language == "sql" {
				problems = append(problems, fmt.Sprintf("line %d: %s without its file", block.Line, block.Language))
			}
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, block.From))
		if err != nil {
			problems = append(problems, fmt.Sprintf("line %d: %v", block.Line, err))
		} else if part, missing := block.NotIn(string(source)); missing {
			problems = append(problems, fmt.Sprintf("line %d: %s has no %q", block.Line, block.From, part))
		}
	}
	return problems
}

// named are the names that a page must have from the repository: targets of make, tests, and files.
var named = []struct {
	pattern *regexp.Regexp
	exists  func(name string) bool
}{
	{regexp.MustCompile("(?:`|\\$ )make ([a-z]+)"), isTarget},
	{regexp.MustCompile(`\b((?:Test|Fuzz|Example)[A-Z]\w*…?)`), isTest},
	{regexp.MustCompile("`(?:\\./)?((?:outbox|[a-z]+-service|internal|docs|examples|scripts|test|deploy|grafana|prometheus)/[\\w./*…-]*)"), isFile},
}

func names(page docs.Page) (problems []string) {
	for i, line := range page.Lines {
		for _, n := range named {
			for _, m := range n.pattern.FindAllStringSubmatch(line, -1) {
				if !n.exists(m[1]) {
					problems = append(problems, fmt.Sprintf("line %d: there is no %s", i+1, m[1]))
				}
			}
		}
	}
	return problems
}

var inCode = regexp.MustCompile("`([^`]+)`")

// promises requires that the scenarios and mistakes in the table of promises exist.
func promises(page docs.Page) (problems []string) {
	scenarios, err := os.ReadFile(filepath.Join(root, "test/chaos/scenarios.go"))
	for i, line := range page.Lines {
		columns := strings.Split(line, "|")
		if len(columns) != 8 || !strings.HasPrefix(line, "| P") {
			continue
		}
		for _, m := range inCode.FindAllStringSubmatch(columns[5], -1) {
			if err != nil || !strings.Contains(string(scenarios), fmt.Sprintf("name: %q", m[1])) {
				problems = append(problems, fmt.Sprintf("line %d: there is no scenario %s", i+1, m[1]))
			}
		}
		for _, m := range inCode.FindAllStringSubmatch(columns[6], -1) {
			if !isFile("test/mistakes/" + m[1] + ".patch") {
				problems = append(problems, fmt.Sprintf("line %d: there is no mistake %s", i+1, m[1]))
			}
		}
	}
	return problems
}

func isTarget(name string) bool {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	return err == nil && strings.Contains(string(makefile), "\n"+name+":")
}

// isFile accepts glob patterns, the patterns of Go's tools, and … for any text.
func isFile(name string) bool {
	name = strings.ReplaceAll(strings.TrimSuffix(name, "..."), "…", "*")
	found, err := filepath.Glob(filepath.Join(root, name))
	return err == nil && len(found) > 0
}

// isTest accepts the beginning of a name with … after it.
func isTest(name string) bool {
	beginning, cut := strings.CutSuffix(name, "…")
	return slices.ContainsFunc(allTests(), func(test string) bool {
		return test == name || cut && strings.HasPrefix(test, beginning)
	})
}

var testFunction = regexp.MustCompile(`(?m)^func (\w+)\(`)

// allTests returns the functions of all files of tests.
var allTests = sync.OnceValue(func() (all []string) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range testFunction.FindAllSubmatch(source, -1) {
			all = append(all, string(m[1]))
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	return all
})

// commands requires that test/docs/execute can read the console blocks.
func commands(page docs.Page) (problems []string) {
	for _, block := range page.Blocks {
		if _, err := block.Commands(); block.Language == docs.Console && err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

// length: the README is one screen to see what it is, and two to use it.
func length(page docs.Page) (problems []string) {
	if n := len(page.Lines) - 1; page.Path == "README.md" && n > 150 {
		problems = append(problems, fmt.Sprintf("it has %d lines; move something to a chapter", n))
	}
	return problems
}

var must = check.Must // many lines have it
