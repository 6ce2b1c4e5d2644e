package main

import (
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"example.com/transactional-outbox/test/docs"
)

// varying matches the parts of a line that differ in each run.
var varying = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "<uuid>"},
	{regexp.MustCompile(`\b([0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{16})\b`), "<id>"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| ?[+-]\d\d:?(\d\d)?)?)?`), "<time>"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "<time>"},
	{regexp.MustCompile(`-?\b(\d+(\.\d+)? ?(ns|us|µs|ms|s|m|h))+\b`), "<duration>"},
	{regexp.MustCompile(`\s+`), " "}, // the width of columns depends on their content
}

// normalize replaces the varying parts of each line, and leaves out blank lines.
func normalize(lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		for _, v := range varying {
			line = v.pattern.ReplaceAllString(line, v.name)
		}
		if line = strings.TrimSpace(line); line != "" {
			text.WriteString(line + "\n")
		}
	}
	return text.String()
}

// compare returns a diff of the expected and the printed lines, "" if they match. A line of three
// dots matches any lines. A line that ends with three dots is the beginning of a longer one.
func compare(want, got []string) string {
	expected, printed := normalize(want), normalize(got)
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for line := range strings.Lines(expected) {
		beginning, cut := strings.CutSuffix(line, docs.Anything+"\n")
		switch {
		case cut && beginning == "":
			pattern.WriteString(`(.*\n)*`)
		case cut:
			pattern.WriteString(regexp.QuoteMeta(beginning) + `.*\n`)
		default:
			pattern.WriteString(regexp.QuoteMeta(line))
		}
	}
	if regexp.MustCompile(pattern.String() + `\z`).MatchString(printed) {
		return ""
	}
	return string(diff.Diff("expected", []byte(expected), "printed", []byte(printed)))
}
