package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"example.com/transactional-outbox/test/jsonfile"
	"example.com/transactional-outbox/test/suite"
)

func main() {
	// In this process, relays log warnings and errors only.
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
	{"split", (*bench).measureSplit},
	{"away", (*bench).measureOutage},
	{"claims", (*bench).measureClaims},
	{"slots", (*bench).measureSlots},
	{"consume", (*bench).measureConsume},
	{"notify", (*bench).measureNotify},
	{"endtoend", (*bench).measureEndToEnd},
	{"replicas", (*bench).measureReplicas},
	{"capacity", (*bench).measureCapacity},
}

// onlyNamed run only if BENCH_ONLY names them: they have no goal, and take long.
var onlyNamed = []string{"replicas", "capacity"}

func run(ctx context.Context) (err error) {
	o, err := readOptions()
	if err != nil {
		return err
	}
	b, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer b.end() //nolint:contextcheck // cleanup must also run after ctx has ended
	for _, m := range measurements {
		if len(o.Only) == 0 && slices.Contains(onlyNamed, m.name) || len(o.Only) > 0 && !slices.Contains(o.Only, m.name) {
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
	return jsonfile.Write("build/bench.json", figures)
}

// progress prints what the program does.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
