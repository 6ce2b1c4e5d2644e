package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 9, 2}, 3},
	} {
		if got := (samples{"key": c.values}).median("key"); got != c.want {
			t.Errorf("the median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

func TestTableShowsGoalsFirst(t *testing.T) {
	t.Parallel()
	var table bytes.Buffer
	if err := printTable(&table, map[string]float64{"post_ratio": 0.61, "bare_pgx_per_s": 2490.4}); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(table.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := "FIGURE MEASURED GOAL|post_ratio 0.61 ≥ 0.60||OTHER FIGURES|bare_pgx_per_s 2490"
	if got := strings.Join(lines, "|"); got != want {
		t.Errorf("the table is %q, want %q", got, want)
	}
}
