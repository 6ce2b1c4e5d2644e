package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"

	"example.com/transactional-outbox/test/suite"
)

// options are set by environment variables.
type options struct {
	Only      []string      `env:"ONLY" does:"comma-separated scenarios to run; empty: all"`
	Short     bool          `env:"SHORT" does:"run only the scenarios marked short below"`
	Cluster   bool          `env:"CLUSTER" does:"run the scenarios with several machines: brokers, databases, failovers"`
	Seed      uint64        `env:"SEED" does:"seed of the random choices; 0: a new one each time"`
	Soak      time.Duration `env:"SOAK" does:"run random faults for this time instead of the scenarios"`
	Scale     float64       `env:"SCALE" envDefault:"1" does:"factor for the duration of load and faults"`
	PerSecond int           `env:"ORDERS_PER_SECOND" envDefault:"40" does:"the load while the API answers"`
	Patience  time.Duration `env:"PATIENCE" envDefault:"90s" does:"how long the services may take to finish all work after a fault"`
	Race      bool          `env:"RACE" does:"build the services with the race detector"`
	Source    string        `env:"SOURCE" envDefault:"." does:"the source tree of the services"`
	Output    string        `env:"OUTPUT" envDefault:"build" does:"the folder for chaos.json and the logs of failed scenarios"`
}

func readOptions() (options, error) {
	o, err := env.ParseAs[options]()
	if err != nil {
		return o, err
	}
	if o.Scale <= 0 || o.PerSecond < 1 || o.Soak < 0 {
		return o, errors.New("SCALE and ORDERS_PER_SECOND must be positive, SOAK not negative")
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
  make chaos ONLY=broker-sigkill,smtp-down
  make chaos SHORT=1
  make chaos SOAK=10m SEED=7
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
