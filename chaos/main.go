package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 {
		printHelp(os.Stdout)
		return
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1) //nolint:gocritic // the process ends: nothing waits for signals any more
	}
}

var errBroken = errors.New("a promise is broken")

func run(ctx context.Context) (err error) {
	o, err := readOptions()
	if err != nil {
		return err
	}
	chosen := o.chosen()
	g, err := prepare(ctx, o, chosen)
	if err != nil {
		return err
	}
	defer g.end() //nolint:contextcheck // ends what ctx has begun, when ctx may have ended
	progress("SEED=%d", o.Seed)
	results, err := g.runAll(ctx, chosen)
	if len(results) == 0 {
		return err
	}
	return errors.Join(err, printTable(os.Stdout, results), writeJSON(filepath.Join(o.Output, "chaos.json"), results), verdict(results))
}

// chosen are the scenarios to run.
func (o options) chosen() []scenario {
	if o.Soak > 0 {
		return []scenario{soak}
	}
	return slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool {
		return len(o.Only) > 0 && !slices.Contains(o.Only, s.name) || o.Short && !s.short
	})
}

// runAll runs one scenario after the other. One that cannot be run fails, and the next
// one begins; only the end of ctx ends them all.
func (g *ground) runAll(ctx context.Context, chosen []scenario) (results []result, err error) {
	for i, s := range chosen {
		began := time.Now()
		r, err := g.run(ctx, s)
		if ctx.Err() != nil {
			return results, errors.New("interrupted")
		}
		if err != nil {
			r = result{Name: s.name, Seed: g.Seed, Broken: map[string][]string{"harness": {err.Error()}}}
			if err := g.mend(ctx); err != nil {
				return results, err
			}
		}
		results = append(results, r)
		progress("%2d/%d %-32s %3.0f s  %s", i+1, len(chosen), s.name, time.Since(began).Seconds(), r.verdict())
		r.explain(os.Stderr)
	}
	return results, nil
}

// mend makes sure of the servers, whatever state a scenario has left them in.
func (g *ground) mend(ctx context.Context) error {
	return errors.Join(g.postgres.Start(ctx), g.startBroker(ctx))
}

func verdict(results []result) error {
	if slices.ContainsFunc(results, func(r result) bool { return !r.Pass }) {
		return errBroken
	}
	return nil
}
