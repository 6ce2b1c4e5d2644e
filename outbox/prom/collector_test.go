package prom_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/prom"
	"example.com/transactional-outbox/outbox/publish"
)

type consumer struct{}

func (consumer) Stats() (map[string]uint64, bool) { return map[string]uint64{"processed": 3}, true }
func (consumer) Failed() uint64                   { return 4 }
func (consumer) CopyFailures() uint64             { return 5 }
func (consumer) CopiesWaiting() int               { return 6 }
func (consumer) Overdue() time.Duration           { return 7 * time.Second }

func TestTheCollectorReportsTheRelayTheBacklogAndTheConsumer(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	published := make(chan struct{}, 1)
	r, err := outbox.NewRelay(pool, publish.Func(func(context.Context, publish.Message) error {
		published <- struct{}{}
		return nil
	}, publish.FuncConfig{OneDestination: true, Calls: 1}), outbox.RelayConfig{PollInterval: 20 * time.Millisecond})
	dbtest.Must(t, err)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prom.Collector(r, consumer{}))
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return outbox.Append(t.Context(), tx, outbox.Event{Topic: "a", Payload: []byte("x")})
	})
	dbtest.Must(t, err)
	if got := gather(t, registry); got["outbox_backlog"] != 1 || got["outbox_oldest_unfinished_age_seconds"] <= 0 || got["outbox_events_total"] != 0 || got["consumer_messages_total"] != 3 ||
		got["consumer_processing_failed_total"] != 4 || got["consumer_copy_failures_total"] != 5 || got["consumer_copies_waiting"] != 6 || got["consumer_handler_overdue_seconds"] != 7 {
		t.Errorf("before: %v", got)
	}

	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	select {
	case <-published:
	case err := <-done:
		t.Fatalf("the relay has ended: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	got := gather(t, registry)
	if got["outbox_backlog"] != 0 || got["outbox_events_total"] != 1 || got["outbox_publish_latency_seconds"] != 1 || got["outbox_mark_seconds"] != 1 || got["outbox_claim_seconds"] < 1 {
		t.Errorf("afterwards: %v", got)
	}
	if n := len(got); n != 27 {
		t.Errorf("%d metrics, want 27: %v", n, slices.Sorted(maps.Keys(got)))
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// gather returns the sum of each metric, and of a histogram or a summary the count.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	dbtest.Must(t, err)
	sums := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			counted := m.GetHistogram().GetSampleCount() + m.GetSummary().GetSampleCount()
			sums[family.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(counted)
		}
	}
	return sums
}
