package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	// What order-service's packages log in this process: only trouble.
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 {
		printHelp(os.Stdout)
		return
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // the process ends: nothing waits for signals any more
	}
}

// measurements are in the order of the table.
var measurements = []struct {
	name    string
	measure func(*bench, context.Context) error
}{
	{"drain", (*bench).measureDrain},
	{"post", (*bench).measurePost},
	{"latency", (*bench).measureLatency},
	{"away", (*bench).measureAway},
	{"claims", (*bench).measureClaims},
	{"prune", (*bench).measurePrune},
	{"consume", (*bench).measureConsume},
	{"notify", (*bench).measureNotify},
}

func run(ctx context.Context) (err error) {
	o, err := readOptions()
	if err != nil {
		return err
	}
	b, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer b.end() //nolint:contextcheck // ends what ctx has begun, when ctx may have ended
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
	return writeJSON("build/bench.json", figures)
}

// progress says what is being done, since it takes long.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
