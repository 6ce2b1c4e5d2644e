package main

import (
	"regexp"
	"slices"
	"strings"

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

// normalize replaces the varying parts of a line.
func normalize(line string) string {
	for _, v := range varying {
		line = v.pattern.ReplaceAllString(line, v.name)
	}
	return strings.TrimSpace(line)
}

// compare returns a diff of the expected and the printed lines, "" if they match.
func compare(want, got []string) string {
	c := newComparison(want, got)
	if c.cost[0][0] == 0 {
		return ""
	}
	return c.diff()
}

// comparison aligns two texts with the fewest differences. It ignores blank lines.
type comparison struct {
	want, got                     []string
	normalizedWant, normalizedGot []string
	cost                          [][]int // cost[i][j]: differences between want[i:] and got[j:]
}

func newComparison(want, got []string) comparison {
	c := comparison{want: withoutBlankLines(want), got: withoutBlankLines(got)}
	c.normalizedWant, c.normalizedGot = normalizeAll(c.want), normalizeAll(c.got)
	c.cost = make([][]int, len(c.want)+1)
	for i := len(c.want); i >= 0; i-- {
		c.cost[i] = make([]int, len(c.got)+1)
		for j := len(c.got); j >= 0; j-- {
			c.cost[i][j], _ = c.best(i, j)
		}
	}
	return c
}

func withoutBlankLines(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.TrimSpace(line) == "" })
}

func normalizeAll(lines []string) []string {
	all := make([]string, len(lines))
	for i, line := range lines {
		all[i] = normalize(line)
	}
	return all
}

// step is one step of an alignment.
type step struct {
	want, got int // how many lines of each text it uses
	sign      string
}

// best returns the cheapest step at a position, and the cost from there to the end.
func (c comparison) best(i, j int) (cost int, s step) {
	wants, gets := i < len(c.want), j < len(c.got)
	switch {
	case !wants && !gets:
		return 0, step{}
	case wants && c.normalizedWant[i] == docs.Anything:
		if gets && c.cost[i][j+1] < c.cost[i+1][j] {
			return c.cost[i][j+1], step{0, 1, ""}
		}
		return c.cost[i+1][j], step{1, 0, " "}
	case wants && gets && same(c.normalizedWant[i], c.normalizedGot[j]):
		return c.cost[i+1][j+1], step{1, 1, " "}
	case wants && (!gets || c.cost[i+1][j] <= c.cost[i][j+1]):
		return 1 + c.cost[i+1][j], step{1, 0, "-"}
	default:
		return 1 + c.cost[i][j+1], step{0, 1, "+"}
	}
}

// same compares a line. One that ends with three dots is the beginning of a longer one.
func same(want, got string) bool {
	begin, cut := strings.CutSuffix(want, docs.Anything)
	return want == got || cut && strings.HasPrefix(got, begin)
}

func (c comparison) diff() string {
	var b strings.Builder
	for i, j := 0, 0; i < len(c.want) || j < len(c.got); {
		_, s := c.best(i, j)
		switch {
		case s.sign == "":
		case s.want > 0:
			b.WriteString(s.sign + " " + c.want[i] + "\n")
		default:
			b.WriteString(s.sign + " " + c.got[j] + "\n")
		}
		i, j = i+s.want, j+s.got
	}
	return b.String()
}
