// Command chaos proves that the promises hold under real faults. It runs both services as real
// processes, injects faults into everything that they depend on, and lets an independent checker
// decide whether they kept their promises.
//
//	load ─► order-service ×2 ─► PostgreSQL      each connection passes a proxy that
//	             │                              can cut, reset, stall,
//	             ▼                              and drop replies
//	         RabbitMQ ─► tap
//	             ▼
//	 notification-service ×2 ─► mail server
//
// A scenario is load with a fault. After the fault, the suite waits until the services have
// finished all work. The checker then reads the databases, the tap, the queues, and the ledgers of
// the load and of the mail server.
//
// With CLUSTER=1 there are more servers: three brokers, a standby of PostgreSQL, or PgBouncer.
//
// For scenarios with wrong clocks, the services are built with a modified package time.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"

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
	if len(chosen) == 0 {
		return errors.New("no scenario is chosen: SHORT=1 leaves out those that are not marked short")
	}
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
	return errors.Join(err, printTable(os.Stdout, results), suite.WriteJSON(filepath.Join(o.Output, "chaos.json"), results), verdict(results))
}

// chosen returns the scenarios to run.
func (o options) chosen() []scenario {
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

// options are set by environment variables.
type options struct {
	Only      []string      `env:"ONLY" does:"comma-separated scenarios to run; empty: all"`
	Short     bool          `env:"SHORT" does:"run only the scenarios marked short below"`
	Cluster   bool          `env:"CLUSTER" does:"run the scenarios with several machines: brokers, databases, failovers"`
	Seed      uint64        `env:"SEED" does:"seed of the random choices; 0: a new one each time"`
	Scale     float64       `env:"SCALE" envDefault:"1" does:"factor for the duration of load and faults"`
	PerSecond int           `env:"ORDERS_PER_SECOND" envDefault:"40" does:"the load while the API answers"`
	Patience  time.Duration `env:"PATIENCE" envDefault:"2m" does:"how long the suite waits for what is promised; how long it takes is reported"`
	Race      bool          `env:"RACE" does:"build the services with the race detector"`
	Source    string        `env:"SOURCE" envDefault:"." does:"the source tree of the services"`
	Output    string        `env:"OUTPUT" envDefault:"build" does:"the folder for chaos.json and the logs of failed scenarios"`
}

func readOptions() (options, error) {
	o, err := env.ParseAs[options]()
	if err != nil {
		return o, err
	}
	if o.Scale <= 0 || o.PerSecond < 1 {
		return o, errors.New("SCALE and ORDERS_PER_SECOND must be positive")
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1<<31) + 1 //nolint:gosec // not a secret
	}
	for _, name := range o.Only {
		if !slices.ContainsFunc(o.scenarios(), func(s scenario) bool { return s.name == name }) {
			return o, fmt.Errorf("there is no scenario %q with CLUSTER=%t; `make chaos ARGS=help` lists them", name, o.Cluster)
		}
	}
	return o, nil
}

// scenarios returns the list from which ONLY and SHORT choose.
func (o options) scenarios() []scenario {
	if o.Cluster {
		return clusterScenarios
	}
	return scenarios
}

// scaled multiplies a duration by SCALE.
func (o options) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * o.Scale)
}

func printHelp(w io.Writer) {
	fmt.Fprint(w, `Runs two replicas of each service on private servers, injects faults under load, and checks
the promises. Prints a table, writes build/chaos.json, and exits with 1 if a promise is
broken. Examples:

  make chaos
  make chaos ONLY=broker-sigkill,smtp-late
  make chaos SHORT=1
  make chaos CLUSTER=1

`)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	suite.PrintSettings[options](table)
	fmt.Fprint(table, "\t\t\nSCENARIO\t\tWHAT IT DOES\n")
	for _, s := range scenarios {
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.name, map[bool]string{true: "short"}[s.short], s.description)
	}
	fmt.Fprint(table, "\t\t\nSCENARIO WITH CLUSTER=1\t\tWHAT IT DOES\n")
	for _, s := range clusterScenarios {
		fmt.Fprintf(table, "%s\t\t%s\n", s.name, s.description)
	}
	_ = table.Flush()
}
