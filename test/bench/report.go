package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// samples are the measured values by key, mostly one value for each run.
type samples map[string][]float64

func (s samples) add(key string, value float64) { s[key] = append(s[key], value) }

func (s samples) median(key string) float64 {
	sorted := slices.Sorted(slices.Values(s[key]))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// addRatio adds how one median compares with another.
func (b *bench) addRatio(key, of, to string) {
	b.samples.add(key, b.samples.median(of)/b.samples.median(to))
}

// figures returns the median of each key.
func (s samples) figures() map[string]float64 {
	figures := map[string]float64{}
	for key := range s {
		figures[key] = s.median(key)
	}
	return figures
}

// goals are the figures with a goal, in the order of the table.
var goals = []struct{ key, goal string }{
	{"relay_drain_ratio", "≥ 0.70"},
	{"relay_rss_mib", "≤ 56"},
	{"post_ratio", "≥ 0.60"},
	{"sustained_backlog_s", "≤ 2"},
	{"commit_to_publish_ms_p50", "≤ 3"},
	{"commit_to_publish_ms_p99", "≤ 25"},
	{"post_p99_away_ratio", "≤ 1.5"},
	{"consume_ratio", "≥ 8"},
	{"consume_batch_ratio", "≥ 0.45"},
	{"consumer_rss_mib", "≤ 40"},
	{"mail_ratio", "≥ 0.75"},
	{"mail_rss_mib", "≤ 40"},
	{"end_to_end_ratio", "≥ 0.95"},
	{"whole_way_ratio", "≥ 0.45"},
}

// printTable prints the figures with a goal first, then the others.
func printTable(w io.Writer, figures map[string]float64) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "FIGURE\tMEASURED\tGOAL\n")
	rest := maps.Clone(figures)
	for _, g := range goals {
		if value, measured := figures[g.key]; measured {
			fmt.Fprintf(table, "%s\t%s\t%s\n", g.key, formatValue(value), g.goal)
			delete(rest, g.key)
		}
	}
	fmt.Fprint(table, "\t\t\nOTHER FIGURES\t\t\n")
	for _, key := range slices.Sorted(maps.Keys(rest)) {
		fmt.Fprintf(table, "%s\t%s\t\n", key, formatValue(rest[key]))
	}
	return table.Flush()
}

func formatValue(value float64) string {
	if value >= 100 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.2f", value)
}
