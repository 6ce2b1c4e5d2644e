package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/caarlos0/env/v11"

	"example.com/transactional-outbox/test/suite"
)

// options are set by environment variables.
type options struct {
	Only []string `env:"ONLY" does:"comma-separated designs, or design/fault; empty: all"`
	Seed uint64   `env:"SEED" envDefault:"1" does:"seed of the first run; the others have the next ones"`
	Runs uint64   `env:"RUNS" envDefault:"3" does:"runs of each row"`
}

func readOptions() (options, error) {
	o, err := env.ParseAs[options]()
	if err != nil {
		return o, err
	}
	if o.Runs < 1 {
		return o, errors.New("RUNS must be positive")
	}
	for _, only := range o.Only {
		if !slices.ContainsFunc(allRows(), func(r row) bool { return r.matches(only) }) {
			return o, fmt.Errorf("ONLY: there is no such row %q; `make compare ARGS=help` lists them", only)
		}
	}
	return o, nil
}

// rows returns the chosen rows.
func (o options) rows() (rows []row) {
	for _, r := range allRows() {
		if len(o.Only) == 0 || slices.ContainsFunc(o.Only, r.matches) {
			rows = append(rows, r)
		}
	}
	return rows
}

// matches reports whether ONLY names this row.
func (r row) matches(only string) bool {
	design, fault, one := strings.Cut(only, "/")
	return r.design.name == design && (!one || r.fault.name == fault)
}

func printHelp(w io.Writer) {
	fmt.Fprint(w, `Runs popular designs of an outbox, and this project, on private servers, and injects the same
faults. Prints a table. A design runs under the faults that it is known for, this project under all.

Exits with 1 if this project loses or repeats an event, publishes one without an order, or lets one
wait for ever, and if a design does not show a failure that is certain. Standard output has only the
tables of docs/what-is-lost.md. Examples:

  make compare
  make compare ONLY=ack-first,seq-cursor/no-fault RUNS=1

`)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	suite.PrintSettings[options](table)
	fmt.Fprint(table, "\t\t\nDESIGN\tCERTAIN\tKNOWN FOR\n")
	for _, d := range designs {
		fmt.Fprintf(table, "%s\t%s\t%s\n", d.name, strings.Join(d.certain, ", "), strings.Join(d.famous, ", "))
	}
	fmt.Fprint(table, "\t\t\nFAULT\t\tWHAT HAPPENS\n")
	for _, f := range faults {
		fmt.Fprintf(table, "%s\t\t%s\n", f.name, f.description)
	}
	_ = table.Flush()
}
