package consumer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/gate"
)

// Pauses between the questions to a dependency that is away, or between the tries at a
// copy; and how long one answer may take.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
	probeTimeout = 10 * time.Second
)

// dependency is something that every message needs, behind a gate.
type dependency struct {
	name   string
	probe  func(ctx context.Context) error
	gate   *gate.Gate
	fell   chan struct{} // wakes watch
	closed prometheus.Gauge
}

func newDependency(name string, probe func(context.Context) error, closed prometheus.Gauge) *dependency {
	return &dependency{name: name, probe: probe, gate: gate.New(), fell: make(chan struct{}, 1), closed: closed}
}

// away asks the dependency itself whether an error was its fault. If it does not
// answer, the gate closes, for everybody, until it does.
func (d *dependency) away(ctx context.Context) bool {
	if !d.gate.IsOpen() {
		return true
	}
	err := d.ask(ctx)
	if err == nil {
		return false
	}
	if d.gate.Close() {
		slog.WarnContext(ctx, "gate closed, messages wait", "dependency", d.name, "error", err)
		d.closed.Set(1)
		select {
		case d.fell <- struct{}{}:
		default: // watch knows, or will look when it begins
		}
	}
	return true
}

func (d *dependency) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return d.probe(ctx)
}

// watch opens the gate again once the dependency answers, each time it closes.
func (d *dependency) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if !d.gate.IsOpen() && d.awaitAnswer(ctx) == nil && d.gate.Open() {
			d.closed.Set(0)
			slog.InfoContext(ctx, "gate open, messages flow", "dependency", d.name)
		}
		select {
		case <-ctx.Done():
		case <-d.fell:
		}
	}
}

func (d *dependency) awaitAnswer(ctx context.Context) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstPause, longestPause
	again := func(err error, in time.Duration) {
		slog.WarnContext(ctx, "still away", "dependency", d.name, "asked_again_in", in.Round(time.Millisecond).String(), "error", err)
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		return struct{}{}, d.ask(ctx)
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(again))
	return err
}

// Waiting lists what messages wait for, by the names of [Config.Probes].
func (c *Consumer[E]) Waiting() (names []string) {
	for name, d := range c.dependencies {
		if !d.gate.IsOpen() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// awaitAll returns when every gate is open, or ctx ends.
func (c *Consumer[E]) awaitAll(ctx context.Context) error {
	for _, d := range c.dependencies {
		if err := d.gate.Wait(ctx); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return nil
}
