package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"

	"example.com/transactional-outbox/test/suite"
)

// options are set by environment variables.
type options struct {
	Runs          int      `env:"BENCH_RUNS" envDefault:"3" does:"runs of each measurement; a figure is their median"`
	Events        int      `env:"BENCH_EVENTS" envDefault:"50000" does:"events to publish, with and without the relay"`
	Seconds       int      `env:"BENCH_SECONDS" envDefault:"30" does:"length of one run of POST at full speed, and of one with bare pgx"`
	PacedSeconds  int      `env:"BENCH_PACED_SECONDS" envDefault:"15" does:"length of one run at 200 orders per second"`
	Messages      int      `env:"BENCH_MESSAGES" envDefault:"20000" does:"messages to consume, and to record and mail by the bare programs"`
	Bare          bool     `env:"BENCH_BARE" envDefault:"true" does:"also measure the bare programs"`
	Only          []string `env:"BENCH_ONLY" does:"some of drain,post,paced,consume; empty: all"`
	Base          string   `env:"BASE" does:"a commit: compare the CPU time of this tree with it, by seven shorter runs"`
	ServersFolder string   `env:"BENCH_SERVERS" does:"BASE sets it for the other bench: the folder of the servers"`
}

func readOptions() (options, error) {
	environment := os.Environ()
	if os.Getenv("BASE") != "" {
		environment = slices.Concat(shortForm, environment)
	}
	o, err := env.ParseAsWithOptions[options](env.Options{Environment: env.ToMap(environment)})
	if err == nil && min(o.Runs, o.Events, o.Seconds, o.PacedSeconds, o.Messages) < 1 {
		err = errors.New("BENCH_RUNS, _EVENTS, _MESSAGES, _SECONDS and _PACED_SECONDS must be at least 1")
	}
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	for _, name := range o.Only {
		if err == nil && !slices.Contains(names, name) {
			err = fmt.Errorf("BENCH_ONLY has %q, and it may have %s", name, strings.Join(names, ", "))
		}
	}
	return o, err
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func printHelp(w io.Writer) {
	fmt.Fprint(w, `Measures both services on private servers; prints a table and writes
build/bench.json. This takes 10 minutes, a short run two, and a comparison with a commit nine:

  BENCH_RUNS=1 BENCH_EVENTS=20000 BENCH_MESSAGES=6000 BENCH_SECONDS=4 BENCH_PACED_SECONDS=4 make bench
  BASE=main make bench

`)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	suite.PrintSettings[options](table)
	_ = table.Flush()
}

func main() {
	// In this process, the library logs warnings and errors only.
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	suite.Main("bench", printHelp, run)
}

// measurements are in the order of the table.
var measurements = []struct {
	name    string
	measure func(*bench, context.Context) error
}{
	{"drain", (*bench).measureDrain},
	{"post", (*bench).measurePost},
	{"paced", (*bench).measurePaced},
	{"consume", (*bench).measureConsume},
}

func run(ctx context.Context) (err error) {
	o, err := readOptions()
	if err != nil {
		return err
	}
	b, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }() //nolint:contextcheck // cleanup must also run after ctx has ended
	var other *otherBench
	turn := func(_ int, measure func() error) error { return measure() }
	switch {
	case o.ServersFolder != "":
		turn = b.inTurn
	case o.Base != "":
		if other, err = startOther(ctx, o.Base, b.Folder); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, other.Close()) }()
		turn = other.beside
	}
	for _, m := range measurements {
		if len(o.Only) > 0 && !slices.Contains(o.Only, m.name) {
			continue
		}
		for run := range o.Runs {
			err := turn(run, func() error {
				suite.Progress("%s, run %d of %d", m.name, run+1, o.Runs)
				if err := b.addSyncs(); err != nil {
					return err
				}
				return m.measure(b, ctx)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	if o.ServersFolder != "" {
		return nil
	}
	return b.report(ctx, other)
}
