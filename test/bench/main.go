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
	Runs           int      `env:"BENCH_RUNS" envDefault:"3" does:"runs of each measurement; a figure is their median"`
	Events         int      `env:"BENCH_EVENTS" envDefault:"50000" does:"events to publish, with and without a relay"`
	Seconds        int      `env:"BENCH_SECONDS" envDefault:"30" does:"length of one run of POST, and of one with bare pgx"`
	LatencySeconds int      `env:"BENCH_LATENCY_SECONDS" envDefault:"15" does:"length of one run at 200 orders per second"`
	Messages       int      `env:"BENCH_MESSAGES" envDefault:"20000" does:"messages to consume, and to handle with bare pgx"`
	EndToEnd       int      `env:"BENCH_END_TO_END_SECONDS" envDefault:"60" does:"length of one run of POST at full speed through both services"`
	Only           []string `env:"BENCH_ONLY" does:"some of drain,post,latency,consume,endtoend; empty: all"`
}

func readOptions() (options, error) {
	o, err := env.ParseAs[options]()
	if err == nil && min(o.Runs, o.Events, o.Seconds, o.LatencySeconds, o.Messages, o.EndToEnd) < 1 {
		err = errors.New("every load must be at least 1")
	}
	return o, err
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func printHelp(w io.Writer) {
	fmt.Fprint(w, `Measures both services on private servers; prints a table and writes
build/bench.json. This takes about ten minutes. A short run takes about a minute:

  BENCH_RUNS=1 BENCH_EVENTS=5000 BENCH_SECONDS=4 BENCH_LATENCY_SECONDS=4 BENCH_END_TO_END_SECONDS=4 \
  BENCH_MESSAGES=3000 make bench

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
	{"latency", (*bench).measureLatency},
	{"consume", (*bench).measureConsume},
	{"endtoend", (*bench).measureEndToEnd},
}

func run(ctx context.Context) (err error) {
	o, err := readOptions()
	if err != nil {
		return err
	}
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	for _, name := range o.Only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("BENCH_ONLY has %q, and it may have %s", name, strings.Join(names, ", "))
		}
	}
	b, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }() //nolint:contextcheck // cleanup must also run after ctx has ended
	for _, m := range measurements {
		if len(o.Only) > 0 && !slices.Contains(o.Only, m.name) {
			continue
		}
		if err := m.measure(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	figures := b.samples.figures()
	if err := printTable(os.Stdout, figures); err != nil {
		return err
	}
	return suite.WriteJSON("build/bench.json", figures)
}
