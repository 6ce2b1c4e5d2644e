// Command compare injects the same faults into popular designs of an outbox and into this project,
// and counts what each of them has lost.
//
// A row is one design under one fault:
//
//	load ─► order side ×2 ─► PostgreSQL
//	            │
//	            ▼
//	        RabbitMQ ─► tap
//	            ▼
//	        consumer side ─► PostgreSQL, mail server
//
// A design of the order side has a good consumer, and a design of the consumer side has this
// project's order-service. So a row shows the failures of one design only. Both sides are real
// processes on real servers. A process that ends is started again, as Kubernetes does it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"

	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

func main() {
	suite.Main("compare", printHelp, run)
}

func run(ctx context.Context) (err error) {
	o, err := readOptions()
	if err != nil {
		return err
	}
	rows := o.rows()
	s, err := openServers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := build(ctx, s.Folder, rows); err != nil {
		return err
	}
	suite.Progress("%d rows to run, RUNS=%d, SEED=%d", len(rows), o.Runs, o.Seed)
	all := results{}
	for seed := o.Seed; seed < o.Seed+o.Runs; seed++ {
		if err := all.add(ctx, s, rows, seed); err != nil {
			return err
		}
	}
	if err := printTables(os.Stdout, all); err != nil {
		return err
	}
	return verdict(os.Stderr, rows, all)
}

// add runs the rows one after the other. A row that fails has no result, and the verdict says so.
func (all results) add(ctx context.Context, s *allServers, rows []row, seed uint64) error {
	for _, r := range rows {
		began := time.Now()
		result, err := s.run(ctx, r, seed)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			suite.Progress("%s FAILED: %v", r, err)
			if err := s.Start(ctx); err != nil {
				return err
			}
			continue
		}
		all[r.String()] = append(all[r.String()], result)
		suite.Progress("%s, %.0f s: %s, the last change %.1f s after the fault", r, time.Since(began).Seconds(), result, result.recovery)
	}
	return nil
}

const (
	designsProgram = "designs"
	peersProgram   = "peers"
)

// build builds the programs that the rows need. peers is a Go module of its own, so that only the
// rows that need it compile its libraries.
func build(ctx context.Context, folder string, rows []row) error {
	if err := services.Build(ctx, ".", folder, "-buildvcs=false"); err != nil {
		return err
	}
	programs := map[string]string{"test": "./compare/designs"}
	if slices.ContainsFunc(rows, func(r row) bool { return len(r.design.modules) > 0 }) {
		programs["test/compare/peers"] = "."
	}
	for module, program := range programs {
		command := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", folder+"/", program)
		command.Dir = module
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("building the programs: %w\n%s", err, output)
		}
	}
	return nil
}

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
