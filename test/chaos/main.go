package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"example.com/transactional-outbox/test/jsonfile"
	"example.com/transactional-outbox/test/suite"
)

func main() {
	suite.Main("chaos", printHelp, run)
}

var errBroken = errors.New("a promise is broken")

func run(ctx context.Context) (err error) {
	o, err := readOptions()
	if err != nil {
		return err
	}
	chosen := o.chosen()
	env, err := prepare(ctx, o, chosen)
	if err != nil {
		return err
	}
	defer env.stopServers() //nolint:contextcheck // cleanup must also run after ctx has ended
	suite.Progress("SEED=%d", o.Seed)
	results, err := env.runAll(ctx, chosen)
	if len(results) == 0 {
		return err
	}
	return errors.Join(err, printTable(os.Stdout, results), jsonfile.Write(filepath.Join(o.Output, "chaos.json"), results), verdict(results))
}

// chosen returns the scenarios to run.
func (o options) chosen() []scenario {
	if o.Soak > 0 {
		return []scenario{soak}
	}
	return slices.DeleteFunc(slices.Clone(o.scenarios()), func(s scenario) bool {
		return len(o.Only) > 0 && !slices.Contains(o.Only, s.name) || o.Short && !s.short
	})
}

// runAll runs the scenarios one after the other. A scenario that cannot run counts as failed.
func (env *environment) runAll(ctx context.Context, chosen []scenario) (results []result, err error) {
	for i, s := range chosen {
		began := time.Now()
		r, err := env.run(ctx, s)
		if ctx.Err() != nil {
			return results, errors.New("interrupted")
		}
		if err != nil {
			r = result{Name: s.name, Seed: env.Seed, Broken: map[string][]string{"harness": {err.Error()}}}
			if err := env.restartServers(ctx); err != nil {
				return results, err
			}
		}
		results = append(results, r)
		suite.Progress("%2d/%d %-32s %3.0f s  %s", i+1, len(chosen), s.name, time.Since(began).Seconds(), r.verdict())
		r.explain(os.Stderr)
	}
	return results, nil
}

// restartServers starts the servers again after a scenario that could not run.
func (env *environment) restartServers(ctx context.Context) error {
	return errors.Join(env.postgres.Start(ctx), env.startBroker(ctx))
}

func verdict(results []result) error {
	if slices.ContainsFunc(results, func(r result) bool { return !r.Pass }) {
		return errBroken
	}
	return nil
}
