package main

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"
)

// options are the loads, by environment variables.
type options struct {
	Runs           int      `env:"BENCH_RUNS" envDefault:"3" does:"runs that each figure is the median of"`
	Events         int      `env:"BENCH_EVENTS" envDefault:"50000" does:"events to drain, and to publish without a relay"`
	Seconds        int      `env:"BENCH_SECONDS" envDefault:"30" does:"length of one run of POST, and of one by bare pgx"`
	LatencySeconds int      `env:"BENCH_LATENCY_SECONDS" envDefault:"15" does:"length of one run at 200 orders per second"`
	Messages       int      `env:"BENCH_MESSAGES" envDefault:"20000" does:"messages to consume, and to handle by bare pgx"`
	Claims         int      `env:"BENCH_CLAIMS" envDefault:"30" does:"claims in one run"`
	Pending        int      `env:"BENCH_PENDING" envDefault:"1000000" does:"pending events of claim_flatness_pending"`
	Published      int      `env:"BENCH_PUBLISHED" envDefault:"5000000" does:"published events of claim_flatness_published"`
	Blocked        int      `env:"BENCH_BLOCKED" envDefault:"300000" does:"blocked events of claim_flatness_blocked"`
	Pruned         int      `env:"BENCH_PRUNED" envDefault:"160000" does:"published events of prune_flatness"`
	Telemetry      bool     `env:"BENCH_TELEMETRY" envDefault:"true" does:"whether order-service exports its traces"`
	Only           []string `env:"BENCH_ONLY" does:"some of drain,post,latency,away,claims,prune,consume,notify; empty: all"`
}

func readOptions() (options, error) {
	o, err := env.ParseAs[options]()
	if err != nil {
		return o, err
	}
	if min(o.Runs, o.Events, o.Seconds, o.LatencySeconds, o.Messages, o.Claims, o.Pending, o.Published, o.Blocked, o.Pruned/keptDays) < 1 {
		return o, errors.New("every load must be at least 1, and BENCH_PRUNED at least 8")
	}
	return o, nil
}

func (o options) seconds() time.Duration        { return time.Duration(o.Seconds) * time.Second }
func (o options) latencySeconds() time.Duration { return time.Duration(o.LatencySeconds) * time.Second }

func printHelp(w io.Writer) {
	fmt.Fprint(w, `Measures both services on servers of its own; prints a table and writes
build/bench.json. It takes about a quarter of an hour; this takes about a minute:

  BENCH_RUNS=1 BENCH_EVENTS=5000 BENCH_SECONDS=4 BENCH_LATENCY_SECONDS=4 BENCH_CLAIMS=10 BENCH_MESSAGES=3000 \
  BENCH_PENDING=50000 BENCH_PUBLISHED=50000 BENCH_BLOCKED=20000 BENCH_PRUNED=40000 make bench

`)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for field := range reflect.TypeFor[options]().Fields() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", field.Tag.Get("env"), field.Tag.Get("envDefault"), field.Tag.Get("does"))
	}
	_ = table.Flush()
}
