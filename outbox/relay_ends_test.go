package outbox

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/publish"
)

func TestWithoutTablesRunReturnsErrNoSchema(t *testing.T) {
	t.Parallel()
	r, err := NewRelay(dbtest.Pool(t, dbtest.URL(t)), newSink(), RelayConfig{Logger: testConfig.Logger})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := r.Run(ctx); !errors.Is(err, ErrNoSchema) {
		t.Errorf("error %v, want %v", err, ErrNoSchema)
	}
}

// TestARelayWaitsForItsDatabase has a database at a port where nobody listens.
func TestARelayWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, "postgres://postgres@127.0.0.1:1/nowhere?sslmode=disable")
	r, stop := run(t, pool, newSink(), RelayConfig{})
	await(t, "it says why it waits", func() bool {
		err := r.Health()
		return err != nil && errors.Unwrap(err) != nil && !errors.Is(err, errAwaited)
	})
	stop()
}

// TestADestinationThatCannotMendItselfEndsRun, and so does one that gives up.
func TestADestinationThatCannotMendItselfEndsRun(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	wrong := errors.New("the exchange has another type")
	for _, result := range []error{wrong, nil} {
		r, err := NewRelay(pool, endsAtOnce{newSink(), result}, RelayConfig{Logger: testConfig.Logger})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		if err := r.Run(ctx); err == nil || result != nil && !errors.Is(err, result) {
			t.Errorf("error %v, want %v", err, result)
		}
		cancel()
	}
}

// endsAtOnce is a destination whose KeepConnected returns at once.
type endsAtOnce struct {
	*sink
	result error
}

func (e endsAtOnce) KeepConnected(context.Context, func(context.Context, publish.Session) error) error {
	return e.result
}

// TestP12ARelayCanStopAtAnyMoment starts and stops a relay while events are committed. Its leases
// are much longer than the test, so an event that a stop leaves in progress is never published.
func TestP12ARelayCanStopAtAnyMoment(t *testing.T) {
	t.Parallel()
	pool, to := dbtest.Migrated(t), newSink()
	ctx, cancel := context.WithCancel(t.Context())
	var appended atomic.Int64
	var appending sync.WaitGroup
	appending.Go(func() {
		for wait(ctx, 5*time.Millisecond) {
			appendEvents(t, pool, 1)
			appended.Add(1)
		}
	})
	config := RelayConfig{Window: 5, PollInterval: 10 * time.Millisecond, Lease: time.Hour}
	for i := range 50 {
		_, stop := run(t, pool, to, config)
		wait(t.Context(), time.Duration(i)*time.Millisecond)
		stop()
		if n := count(t, pool, "outbox_claims"); n > 0 {
			t.Fatalf("a stopped relay has %d claims", n)
		}
	}
	cancel()
	appending.Wait()
	_, stop := run(t, pool, to, config)
	awaitPublished(t, pool, int(appended.Load()))
	stop() // a transaction of its janitor would count
	if n := count(t, pool, "pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"); n > 0 {
		t.Errorf("%d transactions are left open", n)
	}
	if n, repeats := to.counts(); int64(n) != appended.Load() || repeats != 0 {
		t.Errorf("%d messages of %d events, %d repeats", n, appended.Load(), repeats)
	}
}
