package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is one row of the table, and one object in chaos.json.
type result struct {
	Name           string              `json:"name"`
	Seed           uint64              `json:"seed"`
	Injected       int                 `json:"injected"` // faults that had an effect
	Attempted      int                 `json:"attempted"`
	Orders         int                 `json:"orders"` // acknowledged requests
	Lost           int                 `json:"lost"`
	Unexpected     int                 `json:"unexpected"`
	Duplicated     int                 `json:"duplicated"`
	DuplicateBound int                 `json:"duplicate_bound"`
	MailRepeats    int                 `json:"mail_repeats"`
	MailBound      int                 `json:"mail_bound"`
	LongestWait    float64             `json:"longest_wait_s,omitempty"` // see system.longestWait
	Recovery       float64             `json:"recovery_s"`
	Pass           bool                `json:"pass"`
	Broken         map[string][]string `json:"broken,omitempty"`
	Measured       []string            `json:"measured,omitempty"`

	logs string // the folder of the logs
}

// verdict returns the broken promises, or why the scenario proves nothing.
func (r result) verdict() string {
	switch {
	case r.Pass:
		return "kept"
	case len(r.Broken) == 0:
		return "NO FAULT INJECTED"
	default:
		return "BROKEN " + strings.Join(slices.Sorted(maps.Keys(r.Broken)), " ")
	}
}

// explain prints what was measured, and a few violations of each promise.
func (r result) explain(w io.Writer) {
	const shown = 3
	for _, what := range r.Measured {
		fmt.Fprintf(w, "    %s\n", what)
	}
	for _, promise := range slices.Sorted(maps.Keys(r.Broken)) {
		all := r.Broken[promise]
		for _, what := range all[:min(shown, len(all))] {
			fmt.Fprintf(w, "    %s: %s\n", promise, what)
		}
		if len(all) > shown {
			fmt.Fprintf(w, "    %s: and %d more\n", promise, len(all)-shown)
		}
	}
	if r.logs != "" {
		fmt.Fprintf(w, "    logs: %s\n", r.logs)
	}
}

func printTable(w io.Writer, results []result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "SCENARIO\tFAULTS\tATTEMPTED\tACKNOWLEDGED\tLOST\tUNEXPECTED\tDUPLICATED\tMAIL REPEATS\tLONGEST WAIT\tRECOVERY\tPROMISES\n")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d of ≤%d\t%d of ≤%d\t%.1f s\t%.1f s\t%s\n",
			r.Name, r.Injected, r.Attempted, r.Orders, r.Lost, r.Unexpected,
			r.Duplicated, r.DuplicateBound, r.MailRepeats, r.MailBound, r.LongestWait, r.Recovery, r.verdict())
	}
	return table.Flush()
}
