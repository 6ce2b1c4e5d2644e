package main

import (
	"regexp"
	"slices"
	"strings"

	"example.com/transactional-outbox/internal/docs"
)

// varying are the parts of a line that are others each time.
var varying = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "<uuid>"},
	{regexp.MustCompile(`\b([0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{16})\b`), "<id>"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| ?[+-]\d\d:?(\d\d)?)?)?`), "<time>"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "<time>"},
	{regexp.MustCompile(`-?\b(\d+(\.\d+)? ?(ns|us|µs|ms|s|m|h))+\b`), "<duration>"},
	{regexp.MustCompile(`\s+`), " "}, // columns are as wide as what is in them
}

// general is a line without what varies.
func general(line string) string {
	for _, v := range varying {
		line = v.pattern.ReplaceAllString(line, v.name)
	}
	return strings.TrimSpace(line)
}

// compare returns what is missing in what was printed, and what is too much, among the
// lines that are right; nothing if all are.
func compare(want, got []string) string {
	c := newComparison(want, got)
	if c.cost[0][0] == 0 {
		return ""
	}
	return c.diff()
}

// comparison aligns two texts with the fewest differences. Blank lines do not count.
type comparison struct {
	want, got               []string
	generalWant, generalGot []string
	cost                    [][]int // cost[i][j]: differences between want[i:] and got[j:]
}

func newComparison(want, got []string) comparison {
	c := comparison{want: filled(want), got: filled(got)}
	c.generalWant, c.generalGot = generalized(c.want), generalized(c.got)
	c.cost = make([][]int, len(c.want)+1)
	for i := len(c.want); i >= 0; i-- {
		c.cost[i] = make([]int, len(c.got)+1)
		for j := len(c.got); j >= 0; j-- {
			c.cost[i][j], _ = c.best(i, j)
		}
	}
	return c
}

func filled(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.TrimSpace(line) == "" })
}

func generalized(lines []string) []string {
	all := make([]string, len(lines))
	for i, line := range lines {
		all[i] = general(line)
	}
	return all
}

// step is how an alignment goes on.
type step struct {
	want, got int // how many lines of each it takes
	sign      string
}

// best is the cheapest step at a place, and what it and all behind it cost.
func (c comparison) best(i, j int) (cost int, s step) {
	wants, gets := i < len(c.want), j < len(c.got)
	switch {
	case !wants && !gets:
		return 0, step{}
	case wants && c.generalWant[i] == docs.Anything:
		if gets && c.cost[i][j+1] < c.cost[i+1][j] {
			return c.cost[i][j+1], step{0, 1, ""}
		}
		return c.cost[i+1][j], step{1, 0, " "}
	case wants && gets && c.generalWant[i] == c.generalGot[j]:
		return c.cost[i+1][j+1], step{1, 1, " "}
	case wants && (!gets || c.cost[i+1][j] <= c.cost[i][j+1]):
		return 1 + c.cost[i+1][j], step{1, 0, "-"}
	default:
		return 1 + c.cost[i][j+1], step{0, 1, "+"}
	}
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
