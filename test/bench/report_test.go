package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestTableShowsMediansAndGoalsFirst: the median of an even number of runs is between two of them.
func TestTableShowsMediansAndGoalsFirst(t *testing.T) {
	t.Parallel()
	var table bytes.Buffer
	measured := samples{"post_ratio": {0.9, 0.61, 0.1}, "bare_pgx_per_s": {2492, 1000, 3000, 2490}}
	if err := printTable(&table, measured.figures()); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(table.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := "FIGURE MEASURED GOAL|post_ratio 0.61 ≥ 0.60||OTHER FIGURES|bare_pgx_per_s 2491"
	if got := strings.Join(lines, "|"); got != want {
		t.Errorf("the table is %q, want %q", got, want)
	}
}
