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
	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/test/servers"
)

// recoveryTimeout bounds the wait until the relay publishes again.
const recoveryTimeout = 15 * time.Second

// TestP4ARelayOutlivesFrozenConnections freezes the connections to the database, while new ones
// work. This happens after a failover, for example.
func TestP4ARelayOutlivesFrozenConnections(t *testing.T) {
	t.Parallel()
	for name, poll := range map[string]time.Duration{
		"idle":   2 * time.Second, // the pool checks an idle connection before it uses it
		"in use": 10 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFrozenFixture(t, poll)
			b.write()
			b.await(50)
			b.proxy.Freeze()
			b.write()
			b.await(100)
			b.wantNoRepeat()
		})
	}
}

// TestP4AMarkGoesOutOnAnotherConnection freezes the connections between confirms and mark.
func TestP4AMarkGoesOutOnAnotherConnection(t *testing.T) {
	t.Parallel()
	b := newFrozenFixture(t, 10*time.Millisecond)
	b.write()
	b.await(50)
	b.broker.setOnConfirm(sync.OnceFunc(b.proxy.Freeze))
	b.write()
	b.await(100)
	b.write()
	b.await(150)
	b.wantNoRepeat()
}

// frozenFixture is a relay whose connections to the database can freeze.
type frozenFixture struct {
	*testing.T
	direct *postgres.DB
	proxy  *servers.Proxy
	broker *countingConfirms
	relay  *relay.Relay
}

func newFrozenFixture(t *testing.T, poll time.Duration) *frozenFixture {
	t.Helper()
	b := &frozenFixture{T: t, broker: &countingConfirms{copies: map[string]int{}}}
	direct, url := servers.Migrated(t, postgres.Migrations{Files: migrations.Files})
	proxy, through := servers.ProxyFor(t, url)
	b.direct, b.proxy = direct, proxy
	db, err := postgres.Open(t.Context(), through, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	b.relay = relay.New(relay.Config{
		System: "rabbitmq", Destination: "events", AppID: "test", Workers: 2, BatchSize: 500, PollInterval: poll,
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
func (b *frozenFixture) write() {
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

// await waits until that number of events is marked published.
func (b *frozenFixture) await(events int) {
	b.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for began := time.Now(); ; <-poll.C {
		published := b.published()
		if published == events {
			b.Logf("%d published after %s", events, time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > recoveryTimeout {
			b.Fatalf("%d of %d events are published %s later", published, events, recoveryTimeout)
		}
	}
}

func (b *frozenFixture) published() (n int) {
	b.Helper()
	err := b.direct.InSnapshot(b.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(b.Context()).Raw("SELECT count(*) FROM outbox_status WHERE status = 'published'").Scan(&n).Error
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func (b *frozenFixture) wantNoRepeat() {
	b.Helper()
	for id, copies := range b.broker.copiesByID() {
		if copies > 1 {
			b.Errorf("event %s was published %d times", id, copies)
		}
	}
}

// countingConfirms is a broker that confirms every message and counts the copies.
type countingConfirms struct {
	mu        sync.Mutex
	copies    map[string]int
	onConfirm func() // called before the relay gets the confirms
}

func (c *countingConfirms) NewPublisher(int) (publish.Publisher, error) { return c, nil }
func (c *countingConfirms) Close()                                      {}
func (c *countingConfirms) Unblocked(context.Context) error             { return nil }

func (c *countingConfirms) Publish(messages []publish.Message, _ time.Duration) []publish.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	results := make([]publish.Result, len(messages))
	for i, m := range messages {
		c.copies[m.ID]++
		results[i].Outcome = publish.Confirmed
	}
	if c.onConfirm != nil {
		c.onConfirm()
	}
	return results
}

func (c *countingConfirms) setOnConfirm(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onConfirm = f
}

func (c *countingConfirms) copiesByID() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.copies)
}
