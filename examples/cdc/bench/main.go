// Command bench measures the relay that reads the log beside the one that polls, in one run, on
// servers of its own. It prints a table; all figures are medians.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"example.com/transactional-outbox/outbox/cdc/logical"
	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

var (
	events  = flag.Int("events", 20_000, "events of each drain")
	runs    = flag.Int("runs", 3, "runs of each measurement")
	seconds = flag.Int("seconds", 10, "length of each measurement of latency")
)

// way is a relay to measure.
type way struct {
	name     string
	program  string
	args     []string
	settings []string
	slot     bool
}

// noPoll makes cdc look into the table once an hour only.
const noPoll = "RELAY_POLL_INTERVAL=1h"

var ways = []way{
	{name: "poll, 2 workers", program: "order-service", args: []string{"relay"}},
	{name: "poll, 1 worker", program: "order-service", args: []string{"relay"}, settings: []string{"RELAY_WORKERS=1"}},
	{name: "log alone", program: "cdc", settings: []string{noPoll}, slot: true},
	{name: "log, as it is", program: "cdc", slot: true},
}

// bench has the servers, the programs and the figures.
type bench struct {
	folder   string
	database *servers.PostgresServer
	broker   *servers.RabbitMQServer
	figures  map[string][]float64
	order    []string
}

func main() {
	flag.Parse()
	slog.SetLogLoggerLevel(slog.LevelWarn)
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	b := &bench{figures: map[string][]float64{}}
	if b.folder, err = os.MkdirTemp("", "cdc-bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.folder) }()
	if err := os.Chmod(b.folder, 0o755); err != nil { //nolint:gosec // PostgreSQL may run as another user
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	b.database, err = logical.Postgres(ctx, filepath.Join(b.folder, "postgres"), map[string]string{
		"track_commit_timestamp": "on", "max_wal_size": "8GB", "checkpoint_timeout": "1h",
	})
	if err != nil {
		return err
	}
	defer func() { _ = b.database.Close() }()
	if b.broker, err = servers.NewRabbitMQ(filepath.Join(b.folder, "rabbitmq"), process.WithParent); err != nil {
		return err
	}
	defer func() { _ = b.broker.Close() }()
	if err := b.broker.Start(ctx); err != nil {
		return err
	}
	if err := b.measure(ctx); err != nil {
		return err
	}
	b.print()
	return nil
}

// build builds the programs. They are in two modules.
func (b *bench) build(ctx context.Context) error {
	for program, folder := range map[string]string{"cdc": ".", "order-service": "../.."} {
		path := map[string]string{"cdc": ".", "order-service": "./order-service"}[program]
		cmd := exec.CommandContext(ctx, "go", "build", "-o", b.program(program), path) //nolint:gosec // both are constants
		cmd.Dir, cmd.Stderr = folder, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("building %s: %w", program, err)
		}
	}
	return nil
}

func (b *bench) program(name string) string { return filepath.Join(b.folder, name) }

func (b *bench) measure(ctx context.Context) error {
	for i := range *runs {
		progress("run %d of %d", i+1, *runs)
		if err := b.bare(ctx); err != nil {
			return fmt.Errorf("bare publishing: %w", err)
		}
		for _, w := range ways {
			if err := b.drain(ctx, w); err != nil {
				return fmt.Errorf("drain, %s: %w", w.name, err)
			}
		}
		for _, w := range ways {
			if w.name == "poll, 1 worker" {
				continue
			}
			if err := b.latency(ctx, w); err != nil {
				return fmt.Errorf("latency, %s: %w", w.name, err)
			}
		}
	}
	return nil
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func (b *bench) add(figure string, value float64) {
	if _, seen := b.figures[figure]; !seen {
		b.order = append(b.order, figure)
	}
	b.figures[figure] = append(b.figures[figure], value)
}

func (b *bench) print() {
	for _, figure := range b.order {
		values := slices.Sorted(slices.Values(b.figures[figure]))
		fmt.Printf("%-52s %10.1f   of %.1f\n", figure, values[len(values)/2], b.figures[figure])
	}
}
