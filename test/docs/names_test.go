package docs_test

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"example.com/transactional-outbox/test/docs"
)

var (
	fileAndNames = regexp.MustCompile("`([\\w./-]+\\.go)`(?:\\]\\([^)]*\\))?: ((?:`[^`]+`(?:, | and )?)+)")
	codeSpan     = regexp.MustCompile("`([^`]+)`")
	arguments    = regexp.MustCompile(`\(.*`)
)

// functions requires that names after a Go file, as in `claim.go`: `Claim`, are declared in it.
func functions(r *repository, page docs.Page) (problems []string) {
	for _, prose := range page.Prose {
		for _, m := range fileAndNames.FindAllStringSubmatch(prose.Text, -1) {
			for _, span := range codeSpan.FindAllStringSubmatch(m[2], -1) {
				name := arguments.ReplaceAllString(span[1], "")
				if !slices.Contains(r.files[m[1]], name) {
					problems = append(problems, errorAt(prose, "%s has no %s", m[1], name))
				}
			}
		}
	}
	return problems
}

// inFolder matches a Go command that runs in another folder.
var inFolder = regexp.MustCompile(`\bgo [a-z]+ -C (\S+) `)

// paths requires that files and folders in code spans and blocks exist.
func paths(r *repository, page docs.Page) (problems []string) {
	named := regexp.MustCompile(`(?:^|[\s"'=(])(?:\./)?((?:` + strings.Join(quoted(r.folders), "|") + `)/[\w./*…-]*)`)
	for _, text := range code(page) {
		if m := inFolder.FindStringSubmatch(text.Text); m != nil {
			text.Text = strings.ReplaceAll(text.Text, " ./", " "+m[1]+"/")
		}
		for _, m := range named.FindAllStringSubmatch(text.Text, -1) {
			if !exists(m[1]) {
				problems = append(problems, errorAt(text, "there is no %s", m[1]))
			}
		}
	}
	return append(problems, layout(page)...)
}

var parent = regexp.MustCompile(`^([\w.-]+/)\s`)

// layout checks the drawing of the layout: an indented line begins with a name in the folder above.
func layout(page docs.Page) (problems []string) {
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
				problems = append(problems, errorAt(docs.Text{Line: block.Line + i}, "there is no %s", folder+first))
			}
		}
	}
	return problems
}

// exists accepts glob patterns, the patterns of Go's tools, and … for any text.
func exists(name string) bool {
	name = strings.TrimSuffix(strings.TrimSuffix(name, "..."), ".")
	found, err := filepath.Glob(filepath.Join(root, strings.ReplaceAll(name, "…", "*")))
	return err == nil && len(found) > 0
}

// makeCall matches make at the beginning of a command, with its targets.
var makeCall = regexp.MustCompile(`(?:^|\$ |&& |; |\| )(?:[A-Z_]+=\S+ )*make((?: +[\w=.,-]+)*)`)

// targets requires that named targets are in the Makefile.
func targets(r *repository, page docs.Page) (problems []string) {
	for _, text := range code(page) {
		for _, m := range makeCall.FindAllStringSubmatch(text.Text, -1) {
			for name := range strings.FieldsSeq(m[1]) {
				if !strings.Contains(name, "=") && !slices.Contains(r.targets, name) {
					problems = append(problems, errorAt(text, "make has no target %s", name))
				}
			}
		}
	}
	return problems
}

var (
	testName   = regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark|Example)[A-Z]\w*)(…?)`)
	testPlaces = regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Z]\\w*)(…?)` in ((?:`[a-z]\\w*`(?:, )?)+)")
)

// tests requires that named tests exist. If "in" and packages follow, each of them must have it.
func tests(r *repository, page docs.Page) (problems []string) {
	for _, text := range code(page) {
		for _, m := range testName.FindAllStringSubmatch(text.Text, -1) {
			if !slices.ContainsFunc(r.allTests(), matches(m[1], m[2])) {
				problems = append(problems, errorAt(text, "there is no test %s", m[0]))
			}
		}
	}
	for _, prose := range page.Prose {
		for _, m := range testPlaces.FindAllStringSubmatch(prose.Text, -1) {
			for _, pkg := range codeSpan.FindAllStringSubmatch(m[3], -1) {
				if !slices.ContainsFunc(r.tests[pkg[1]], matches(m[1], m[2])) {
					problems = append(problems, errorAt(prose, "%s has no test %s%s", pkg[1], m[1], m[2]))
				}
			}
		}
	}
	return problems
}

func (r *repository) allTests() (all []string) {
	for _, names := range r.tests {
		all = append(all, names...)
	}
	return all
}

// matches compares names. With an ellipsis, it compares their beginnings.
func matches(name, ellipsis string) func(string) bool {
	return func(test string) bool {
		return test == name || ellipsis != "" && strings.HasPrefix(test, name)
	}
}

var (
	identifier = regexp.MustCompile(`^((?:outbox|consumer|order|relay|notification)(?:_[a-z0-9]+)+|[A-Z]+(?:_[A-Z0-9]+)+|[A-Z][a-z]+(?:[A-Z][a-z0-9]*)+)(?:[={].*)?$`)
	qualified  = regexp.MustCompile(`^\*?([a-z]\w+)\.([A-Z]\w*(?:\.\w+)?)(?:\(.*)?$`)
)

// names requires that words that look like names exist in the repository: metrics, tables,
// settings, alerts, and names in Go code.
func names(r *repository, page docs.Page) (problems []string) {
	for _, span := range page.Spans {
		if m := identifier.FindStringSubmatch(span.Text); m != nil && !r.words[m[1]] {
			problems = append(problems, errorAt(span, "nothing is called %s", m[1]))
		}
		m := qualified.FindStringSubmatch(span.Text)
		if m == nil {
			continue
		}
		if all, ours := r.packages[m[1]]; ours && !slices.Contains(all, m[2]) {
			problems = append(problems, errorAt(span, "%s has no %s", m[1], m[2]))
		}
	}
	return problems
}

// consoles requires that test/docs/execute can parse the console blocks.
func consoles(_ *repository, page docs.Page) (problems []string) {
	for _, block := range page.Blocks {
		if block.Language != docs.Console {
			continue
		}
		if _, err := block.Commands(); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

// code returns the code spans, and the lines of code blocks that are not indented.
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

// errorAt returns an error message with the line.
func errorAt(text docs.Text, format string, args ...any) string {
	return fmt.Sprintf("line %d: %s", text.Line, fmt.Sprintf(format, args...))
}
