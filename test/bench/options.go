package main

import (
	"errors"
	"fmt"
	"io"
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
	Claims         int      `env:"BENCH_CLAIMS" envDefault:"30" does:"claims in one run"`
	Pending        int      `env:"BENCH_PENDING" envDefault:"1000000" does:"pending events of claim_flatness_pending"`
	Published      int      `env:"BENCH_PUBLISHED" envDefault:"5000000" does:"published events of claim_flatness_published"`
	Blocked        int      `env:"BENCH_BLOCKED" envDefault:"300000" does:"blocked events of claim_flatness_blocked"`
	Waiting        int      `env:"BENCH_WAITING" envDefault:"60000" does:"pending events of claim_flatness_quiet"`
	Topics         int      `env:"BENCH_TOPICS" envDefault:"5000" does:"topics of claim_flatness_topics; half of them are paused"`
	Held           int      `env:"BENCH_HELD" envDefault:"300000" does:"events done of claim_flatness_held"`
	Slot           int      `env:"BENCH_SLOT" envDefault:"600000" does:"published events of slot_flatness"`
	CapacityEvents int      `env:"BENCH_CAPACITY_EVENTS" envDefault:"10000000" does:"published events in the full log of capacity"`
	CapacityRate   int      `env:"BENCH_CAPACITY_RATE" envDefault:"2000" does:"orders per second of capacity"`
	CapacityAdded  int      `env:"BENCH_CAPACITY_ADDED" envDefault:"0" does:"further events per second of capacity, which SQL adds, tens at a time"`
	CapacityTime   int      `env:"BENCH_CAPACITY_SECONDS" envDefault:"300" does:"length of the run of capacity with a full log"`
	CapacityEmpty  int      `env:"BENCH_CAPACITY_EMPTY_SECONDS" envDefault:"300" does:"length of the run of capacity with an empty log"`
	ReplicasTime   int      `env:"BENCH_REPLICAS_SECONDS" envDefault:"8" does:"length of one part of replicas"`
	Telemetry      bool     `env:"BENCH_TELEMETRY" envDefault:"false" does:"export the services' traces to a collector that drops them"`
	Peers          bool     `env:"PEERS" envDefault:"false" does:"drain also measures River and Watermill's forwarder"`
	Only           []string `env:"BENCH_ONLY" does:"some of drain,post,latency,split,away,claims,slots,consume,notify,endtoend,replicas,capacity; empty: all but the last two"`
}

func readOptions() (options, error) {
	o, err := env.ParseAs[options]()
	if err != nil {
		return o, err
	}
	if o.CapacityAdded < 0 {
		return o, errors.New("BENCH_CAPACITY_ADDED must be at least 0")
	}
	if min(o.Runs, o.Events, o.Seconds, o.LatencySeconds, o.Messages, o.EndToEnd, o.Claims, o.Pending, o.Published, o.Blocked, o.Waiting/few, o.Held, o.Topics/2, o.Slot/smallSlot, o.CapacityEvents, o.CapacityRate, o.CapacityTime/10, o.CapacityEmpty/10, o.ReplicasTime) < 1 {
		return o, fmt.Errorf("every load must be at least 1, BENCH_WAITING at least %d, BENCH_SLOT at least %d, and BENCH_CAPACITY_SECONDS and BENCH_CAPACITY_EMPTY_SECONDS at least 10", few, smallSlot)
	}
	return o, nil
}

func (o options) seconds() time.Duration         { return time.Duration(o.Seconds) * time.Second }
func (o options) replicasSeconds() time.Duration { return time.Duration(o.ReplicasTime) * time.Second }
func (o options) endToEnd() time.Duration        { return time.Duration(o.EndToEnd) * time.Second }
func (o options) latencySeconds() time.Duration  { return time.Duration(o.LatencySeconds) * time.Second }

func printHelp(w io.Writer) {
	fmt.Fprint(w, `Measures both services on private servers; prints a table and writes
build/bench.json. This takes about a quarter of an hour. A short run takes about a minute:

  BENCH_RUNS=1 BENCH_EVENTS=5000 BENCH_SECONDS=4 BENCH_LATENCY_SECONDS=4 BENCH_END_TO_END_SECONDS=4 BENCH_CLAIMS=10 BENCH_MESSAGES=3000 \
  BENCH_PENDING=50000 BENCH_PUBLISHED=50000 BENCH_BLOCKED=20000 BENCH_WAITING=20000 BENCH_HELD=30000 BENCH_SLOT=60000 make bench

`)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	suite.PrintSettings[options](table)
	_ = table.Flush()
}
