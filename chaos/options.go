package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"
)

// options are set by environment variables.
type options struct {
	Only      []string      `env:"ONLY" does:"the scenarios to run, with commas between them; empty: all"`
	Short     bool          `env:"SHORT" does:"only the scenarios marked below: a few, which threaten one promise each"`
	Seed      uint64        `env:"SEED" does:"chooses what is left to chance; 0: another one each time"`
	Soak      time.Duration `env:"SOAK" does:"random faults for so long, instead of the scenarios"`
	Scale     float64       `env:"SCALE" envDefault:"1" does:"makes the load and the outages of each scenario longer"`
	PerSecond int           `env:"ORDERS_PER_SECOND" envDefault:"40" does:"the load, if it is answered"`
	Patience  time.Duration `env:"PATIENCE" envDefault:"90s" does:"how long a scenario may take to become quiet"`
	Leases    bool          `env:"REAL_LEASES" does:"waits for the leases of dead e-mail senders, a minute each, instead of ending them"`
	Race      bool          `env:"RACE" does:"builds the services with the race detector"`
	Source    string        `env:"SOURCE" envDefault:"." does:"the tree whose services are run"`
	Output    string        `env:"OUTPUT" envDefault:"build" does:"the folder for chaos.json and the logs of what failed"`
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
		o.Seed = rand.Uint64N(1<<31) + 1 //nolint:gosec // hides nothing
	}
	for _, name := range o.Only {
		if _, known := find(name); !known {
			return o, fmt.Errorf("there is no scenario %q; `scripts/chaos help` lists them", name)
		}
	}
	return o, nil
}

// scaled makes a length of time longer by SCALE.
func (o options) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * o.Scale)
}

func printHelp(w io.Writer) {
	fmt.Fprint(w, `Runs two replicas of each service on servers of its own, breaks things under load,
and lets a checker decide. Prints a table, writes build/chaos.json, and exits 1 if a
promise is broken. Examples:

  make chaos
  make chaos ONLY=broker-sigkill,smtp-down
  make chaos SHORT=1
  make chaos SOAK=10m SEED=7

`)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "SETTING\tDEFAULT\tMEANING\n")
	for field := range reflect.TypeFor[options]().Fields() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", field.Tag.Get("env"), field.Tag.Get("envDefault"), field.Tag.Get("does"))
	}
	fmt.Fprint(table, "\t\t\nSCENARIO\t\tWHAT IT DOES\n")
	for _, s := range scenarios {
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.name, map[bool]string{true: "short"}[s.short], s.does)
	}
	_ = table.Flush()
}
