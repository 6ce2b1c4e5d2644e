package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is one line of the table, and one object of chaos.json.
type result struct {
	Name           string              `json:"name"`
	Seed           uint64              `json:"seed"`
	Injected       int                 `json:"injected"` // faults as seen from outside
	Attempted      int                 `json:"attempted"`
	Orders         int                 `json:"orders"` // requests that were acknowledged
	Recovered      int                 `json:"recovered"`
	Lost           int                 `json:"lost"`
	Unexpected     int                 `json:"unexpected"`
	Duplicated     int                 `json:"duplicated"`
	DuplicateBound int                 `json:"duplicate_bound"`
	MailRepeats    int                 `json:"mail_repeats"`
	MailBound      int                 `json:"mail_bound"`
	Recovery       float64             `json:"recovery_s"`
	With           conditions          `json:"recovery_with"`
	Pass           bool                `json:"pass"`
	Broken         map[string][]string `json:"broken,omitempty"`

	kept string // where the logs are
}

// conditions are what the recovery takes its time from: with those of production it
// takes longer.
type conditions struct {
	RelayLease  string   `json:"relay_lease"`
	MailLease   string   `json:"mail_lease"` // of dead senders
	RetryDelays []string `json:"retry_delays"`
}

func (y *system) conditions() conditions {
	c := conditions{RelayLease: y.allowed.Lease.String(), MailLease: "its own"}
	if !y.leasesAreTheirs {
		c.MailLease = "ended after " + endLeaseAfter.String()
	}
	if len(y.notifications) > 0 {
		c.RetryDelays = y.notifications[0].retryDelays()
	}
	return c
}

// String is for a column of the table.
func (c conditions) String() string {
	return fmt.Sprintf("relay lease %s, e-mail lease %s, retries %s", c.RelayLease, c.MailLease, strings.Join(c.RetryDelays, " "))
}

// broken names the promises that are, or says why the scenario proves nothing.
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

// explain says what contradicts the promises, with some of the evidence.
func (r result) explain(w io.Writer) {
	const shown = 3
	for _, promise := range slices.Sorted(maps.Keys(r.Broken)) {
		all := r.Broken[promise]
		for _, what := range all[:min(shown, len(all))] {
			fmt.Fprintf(w, "    %s: %s\n", promise, what)
		}
		if len(all) > shown {
			fmt.Fprintf(w, "    %s: and %d more\n", promise, len(all)-shown)
		}
	}
	if r.kept != "" {
		fmt.Fprintf(w, "    logs: %s\n", r.kept)
	}
}

func printTable(w io.Writer, results []result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "SCENARIO\tFAULTS\tATTEMPTED\tACKNOWLEDGED\tRECOVERED\tLOST\tUNEXPECTED\tDUPLICATED\tMAIL REPEATS\tRECOVERY\tWITH\tPROMISES\n")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d of ≤%d\t%d of ≤%d\t%.1f s\t%s\t%s\n",
			r.Name, r.Injected, r.Attempted, r.Orders, r.Recovered, r.Lost, r.Unexpected,
			r.Duplicated, r.DuplicateBound, r.MailRepeats, r.MailBound, r.Recovery, r.With, r.verdict())
	}
	return table.Flush()
}

func writeJSON(path string, results []result) error {
	content, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // for everybody to read
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644) //nolint:gosec // for everybody to read
}
