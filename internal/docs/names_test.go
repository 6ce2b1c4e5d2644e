package docs_test

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"example.com/transactional-outbox/internal/docs"
)

var (
	pair      = regexp.MustCompile("`([\\w./-]+\\.go)`(?:\\]\\([^)]*\\))?: ((?:`[^`]+`(?:, | and )?)+)")
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	arguments = regexp.MustCompile(`\(.*`)
)

// functions wants what stands behind a Go file, as in `claim.go`: `Claim`, to be declared
// in it.
func functions(r *repository, page docs.Page) (complaints []string) {
	for _, prose := range page.Prose {
		for _, m := range pair.FindAllStringSubmatch(prose.Text, -1) {
			for _, span := range codeSpan.FindAllStringSubmatch(m[2], -1) {
				name := arguments.ReplaceAllString(span[1], "")
				if !slices.Contains(r.files[m[1]], name) {
					complaints = append(complaints, at(prose, "%s has no %s", m[1], name))
				}
			}
		}
	}
	return complaints
}

// paths wants each file and folder of the repository that is named as code to be there.
func paths(r *repository, page docs.Page) (complaints []string) {
	named := regexp.MustCompile(`(?:^|[\s"'=(])(?:\./)?((?:` + strings.Join(quoted(r.folders), "|") + `)/[\w./*…-]*)`)
	for _, text := range code(page) {
		for _, m := range named.FindAllStringSubmatch(text.Text, -1) {
			if !exists(m[1]) {
				complaints = append(complaints, at(text, "there is no %s", m[1]))
			}
		}
	}
	return append(complaints, layout(page)...)
}

var parent = regexp.MustCompile(`^([\w.-]+/)\s`)

// layout checks drawings of folders: an indented line begins with a name in the folder
// that the last line at the margin begins with.
func layout(page docs.Page) (complaints []string) {
	for _, block := range page.Blocks {
		var folder string
		for i, line := range block.Lines {
			indented := strings.HasPrefix(line, " ")
			if !indented {
				folder = ""
				if m := parent.FindStringSubmatch(line); m != nil {
					folder = m[1]
				}
			}
			if first, _, _ := strings.Cut(strings.TrimSpace(line), " "); indented && folder != "" && !exists(folder+first) {
				complaints = append(complaints, at(docs.Text{Line: block.Line + i}, "there is no %s", folder+first))
			}
		}
	}
	return complaints
}

// exists knows patterns, those of Go's tools too, and what … leaves out.
func exists(name string) bool {
	name = strings.TrimSuffix(strings.TrimSuffix(name, "..."), ".")
	found, err := filepath.Glob(filepath.Join(root, strings.ReplaceAll(name, "…", "*")))
	return err == nil && len(found) > 0
}

// makeCall is make at the beginning of a command, and what it is called with.
var makeCall = regexp.MustCompile(`(?:^|\$ |&& |; |\| )(?:[A-Z_]+=\S+ )*make((?: +[\w=.,-]+)*)`)

// targets wants each that is named to be in the Makefile.
func targets(r *repository, page docs.Page) (complaints []string) {
	for _, text := range code(page) {
		for _, m := range makeCall.FindAllStringSubmatch(text.Text, -1) {
			for name := range strings.FieldsSeq(m[1]) {
				if !strings.Contains(name, "=") && !slices.Contains(r.targets, name) {
					complaints = append(complaints, at(text, "make has no target %s", name))
				}
			}
		}
	}
	return complaints
}

var (
	testName   = regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark|Example)[A-Z]\w*)(…?)`)
	testPlaces = regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Z]\\w*)(…?)` in ((?:`[a-z]\\w*`(?:, )?)+)")
)

// tests wants each that is named to exist; behind "in", in each of the packages that are
// named.
func tests(r *repository, page docs.Page) (complaints []string) {
	for _, text := range code(page) {
		for _, m := range testName.FindAllStringSubmatch(text.Text, -1) {
			if !slices.ContainsFunc(r.allTests(), matches(m[1], m[2])) {
				complaints = append(complaints, at(text, "there is no test %s", m[0]))
			}
		}
	}
	for _, prose := range page.Prose {
		for _, m := range testPlaces.FindAllStringSubmatch(prose.Text, -1) {
			for _, pkg := range codeSpan.FindAllStringSubmatch(m[3], -1) {
				if !slices.ContainsFunc(r.tests[pkg[1]], matches(m[1], m[2])) {
					complaints = append(complaints, at(prose, "%s has no test %s%s", pkg[1], m[1], m[2]))
				}
			}
		}
	}
	return complaints
}

func (r *repository) allTests() (all []string) {
	for _, names := range r.tests {
		all = append(all, names...)
	}
	return all
}

// matches compares names; with an ellipsis, their beginnings.
func matches(name, ellipsis string) func(string) bool {
	return func(test string) bool {
		return test == name || ellipsis != "" && strings.HasPrefix(test, name)
	}
}

var (
	identifier = regexp.MustCompile(`^((?:outbox|consumer|order|relay|notification)(?:_[a-z0-9]+)+|[A-Z]+(?:_[A-Z0-9]+)+|[A-Z][a-z]+(?:[A-Z][a-z0-9]*)+)(?:[={].*)?$`)
	qualified  = regexp.MustCompile(`^\*?([a-z]\w+)\.([A-Z]\w*(?:\.\w+)?)(?:\(.*)?$`)
)

// names wants what looks like a name of ours to be one: metrics, tables, settings,
// alerts, Go's names.
func names(r *repository, page docs.Page) (complaints []string) {
	for _, span := range page.Spans {
		if m := identifier.FindStringSubmatch(span.Text); m != nil && !r.words[m[1]] {
			complaints = append(complaints, at(span, "nothing is called %s", m[1]))
		}
		m := qualified.FindStringSubmatch(span.Text)
		if m == nil {
			continue
		}
		if all, ours := r.packages[m[1]]; ours && !slices.Contains(all, m[2]) {
			complaints = append(complaints, at(span, "%s has no %s", m[1], m[2]))
		}
	}
	return complaints
}

// consoles wants their blocks to be readable for scripts/readme.
func consoles(_ *repository, page docs.Page) (complaints []string) {
	for _, block := range page.Blocks {
		if block.Language != docs.Console {
			continue
		}
		if _, err := block.Commands(); err != nil {
			complaints = append(complaints, err.Error())
		}
	}
	return complaints
}

// code is everything that is set as code.
func code(page docs.Page) []docs.Text {
	all := slices.Clone(page.Spans)
	for _, block := range page.Blocks {
		for i, line := range block.Lines {
			if !strings.HasPrefix(line, " ") {
				all = append(all, docs.Text{Line: block.Line + i, Text: line})
			}
		}
	}
	return all
}

func quoted(names []string) (all []string) {
	for _, name := range names {
		all = append(all, regexp.QuoteMeta(path.Clean(name)))
	}
	return all
}

// at is a complaint about a part of a page.
func at(text docs.Text, format string, args ...any) string {
	return fmt.Sprintf("line %d: %s", text.Line, fmt.Sprintf(format, args...))
}
