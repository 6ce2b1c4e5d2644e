package relay_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/order-service/migrations"
)

// goesOnWithin is how soon a relay must publish again.
const goesOnWithin = 15 * time.Second

// TestP4ARelayOutlivesFrozenConnections has connections to the database on which nothing
// comes any more, while new ones work: after a failover, for one.
func TestP4ARelayOutlivesFrozenConnections(t *testing.T) {
	t.Parallel()
	for name, poll := range map[string]time.Duration{
		"that were idle":    2 * time.Second, // the pool asks them first whether they live
		"that were in work": 10 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFrozenBench(t, poll)
			b.write()
			b.await(50)
			b.proxy.Freeze()
			b.write()
			b.await(100)
			b.wantNoRepeat()
		})
	}
}

// TestP4AMarkGoesOutOnAnotherConnection freezes them between the confirms and the mark.
func TestP4AMarkGoesOutOnAnotherConnection(t *testing.T) {
	t.Parallel()
	b := newFrozenBench(t, 10*time.Millisecond)
	b.write()
	b.await(50)
	b.broker.whenConfirmed(sync.OnceFunc(b.proxy.Freeze))
	b.write()
	b.await(100)
	b.write()
	b.await(150)
	b.wantNoRepeat()
}

// frozenBench is a relay whose way to the database may freeze.
type frozenBench struct {
	*testing.T
	direct *postgres.DB
	proxy  *servertest.Proxy
	broker *countingConfirms
	relay  *relay.Relay
}

func newFrozenBench(t *testing.T, poll time.Duration) *frozenBench {
	t.Helper()
	b := &frozenBench{T: t, broker: &countingConfirms{copies: map[string]int{}}}
	direct, url := servertest.Migrated(t, postgres.Migrations{Files: migrations.Files})
	proxy, through := servertest.Proxied(t, url)
	b.direct, b.proxy = direct, proxy
	db, err := postgres.Open(t.Context(), through, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	b.relay = relay.New(relay.Config{
		Exchange: "events", AppID: "test", Workers: 2, BatchSize: 500, PollInterval: poll,
		Lease: time.Minute, ConfirmTimeout: 10 * time.Second, MaxAttempts: 20, RetryBase: time.Second, RetryCap: time.Minute,
	}, outbox.NewStore(db), relay.NewMetrics(prometheus.NewRegistry()))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = b.relay.Run(ctx, b.broker) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return b
}

// write commits 50 events.
func (b *frozenBench) write() {
	b.Helper()
	err := b.direct.InTx(b.Context(), func(tx *postgres.Tx) error {
		for range 50 {
			if err := outbox.Append(b.Context(), tx, outbox.Message{
				ID: uuid.New(), AggregateType: "order", AggregateID: uuid.New(), AggregateVersion: 1,
				EventKey: "order.created", Payload: []byte(`{}`),
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.relay.Wake()
}

// await waits until so many events are marked published.
func (b *frozenBench) await(events int) {
	b.Helper()
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	for began := time.Now(); ; <-ask.C {
		published := b.published()
		if published == events {
			b.Logf("%d published after %s", events, time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > goesOnWithin {
			b.Fatalf("%d of %d events are published %s later", published, events, goesOnWithin)
		}
	}
}

func (b *frozenBench) published() (n int) {
	b.Helper()
	err := b.direct.InSnapshot(b.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(b.Context()).Raw("SELECT count(*) FROM outbox_events WHERE status = 'published'").Scan(&n).Error
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func (b *frozenBench) wantNoRepeat() {
	b.Helper()
	for id, copies := range b.broker.all() {
		if copies > 1 {
			b.Errorf("event %s was published %d times", id, copies)
		}
	}
}

// countingConfirms is a broker that confirms everything, and counts it.
type countingConfirms struct {
	mu        sync.Mutex
	copies    map[string]int
	confirmed func() // called before the relay learns of the confirms
}

func (c *countingConfirms) NewPublisher(int) (relay.Publisher, error) { return c, nil }
func (c *countingConfirms) Close()                                    {}
func (c *countingConfirms) Unblocked(context.Context) error           { return nil }

func (c *countingConfirms) Publish(messages []rabbitmq.Message, _ time.Duration) []rabbitmq.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	results := make([]rabbitmq.Result, len(messages))
	for i, m := range messages {
		c.copies[m.ID]++
		results[i].Outcome = rabbitmq.Confirmed
	}
	if c.confirmed != nil {
		c.confirmed()
	}
	return results
}

func (c *countingConfirms) whenConfirmed(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirmed = do
}

func (c *countingConfirms) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.copies)
}
