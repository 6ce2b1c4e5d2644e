package relay_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/test/servers"
)

// TestP12ARelayCanStopAtAnyMoment starts and stops a relay a hundred times while events are
// committed. Its leases are much longer than the test, so an event that a stop leaves in
// progress is never published.
//
// At the end of all tests, goleak checks that no goroutine is left.
func TestP12ARelayCanStopAtAnyMoment(t *testing.T) {
	t.Parallel()
	b := newStopFixture(t)
	stopWriting := b.writeOrders()
	servers.StartAndStop(t, 100, 60*time.Millisecond, b.run, b.wantNothingHeld)
	orders := stopWriting()

	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var last sync.WaitGroup
	last.Go(func() { _ = b.run(ctx) })
	b.wantAll(ctx, orders)
	stop()
	last.Wait()
	b.wantNothingHeld()
	if n := b.count("pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"); n > 0 {
		t.Errorf("%d transactions are left open", n)
	}
}

// stopFixture is a relay with a database and a queue that only this test uses.
type stopFixture struct {
	*testing.T
	db    *postgres.DB
	relay *relay.Relay
	proxy *servers.Proxy
	url   string
	key   string // the event key of this test alone
	queue rabbitmq.Queue
}

// versions is how many events each order has.
const versions = 3

func newStopFixture(t *testing.T) *stopFixture {
	t.Helper()
	// A random key, because the same test may run twice on this broker.
	b := &stopFixture{T: t, key: "stopped." + strings.ToLower(rand.Text())}
	b.db, _ = servers.Migrated(t, postgres.Migrations{Files: migrations.Files})
	b.proxy, b.url = servers.ProxyFor(t, servers.BrokerURL(t))
	name := "test-" + uuid.NewString()
	b.queue = rabbitmq.Queue{
		Name: name, Arguments: map[string]any{"x-expires": time.Minute.Milliseconds()},
		Bindings: []rabbitmq.Binding{{Exchange: "amq.topic", Key: b.key}},
	}
	b.relay = relay.New(relay.Config{
		System: "rabbitmq", Destination: "amq.topic", AppID: "test", Workers: 2, BatchSize: 5, PollInterval: 10 * time.Millisecond,
		Lease: time.Hour, ConfirmTimeout: 10 * time.Second, MaxAttempts: 20, RetryBase: time.Second, RetryCap: time.Minute,
	}, outbox.NewStore(b.db), relay.NewMetrics(prometheus.NewRegistry()))
	b.onSession(t.Context(), func(context.Context, *rabbitmq.Session) {})
	return b
}

func (b *stopFixture) run(ctx context.Context) error {
	return rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: b.url, Name: b.Name()}, func(ctx context.Context, s *rabbitmq.Session) error {
		return b.relay.Run(ctx, session{s})
	})
}

// onSession calls do on a session without the proxy, after it declares the queue.
func (b *stopFixture) onSession(ctx context.Context, do func(context.Context, *rabbitmq.Session)) {
	b.Helper()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err := rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: servers.BrokerURL(b), Name: b.Name()}, func(ctx context.Context, s *rabbitmq.Session) error {
		defer stop()
		if err := s.Declare(rabbitmq.Topology{Queues: []rabbitmq.Queue{b.queue}}); err != nil {
			return err
		}
		do(ctx, s)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// writeOrders commits events until stop, which returns their orders.
func (b *stopFixture) writeOrders() (stop func() []uuid.UUID) {
	ctx, cancel := context.WithCancel(b.Context())
	var orders []uuid.UUID
	var writing sync.WaitGroup
	writing.Go(func() {
		for ctx.Err() == nil {
			order := uuid.New()
			orders = append(orders, order)
			for version := 1; version <= versions; version++ {
				b.write(order, version)
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() []uuid.UUID {
		cancel()
		writing.Wait()
		return orders
	}
}

func (b *stopFixture) write(order uuid.UUID, version int) {
	err := b.db.InTx(b.Context(), func(tx *postgres.Tx) error {
		return outbox.Append(b.Context(), tx, outbox.Message{
			ID: uuid.New(), AggregateType: "order", AggregateID: order, AggregateVersion: version,
			EventKey: b.key, Payload: fmt.Appendf(nil, `"%s %d"`, order, version),
		})
	})
	if err != nil {
		b.Error(err)
	}
	b.relay.Wake()
}

// wantNothingHeld wants that a stopped relay holds no event and no connection.
func (b *stopFixture) wantNothingHeld() {
	b.Helper()
	if n := b.count("outbox_claims"); n > 0 {
		b.Fatalf("a stopped relay has %d claims", n)
	}
	for deadline := time.Now().Add(10 * time.Second); b.proxy.Open() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("a stopped relay holds %d connections", b.proxy.Open())
		}
	}
}

func (b *stopFixture) count(rows string) (n int) {
	b.Helper()
	err := b.db.InSnapshot(b.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(b.Context()).Raw("SELECT count(*) FROM " + rows).Scan(&n).Error
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// wantAll wants every event in the queue, and the events of each order in the order of their
// versions.
func (b *stopFixture) wantAll(ctx context.Context, orders []uuid.UUID) {
	b.Helper()
	b.onSession(ctx, func(ctx context.Context, s *rabbitmq.Session) {
		messages, err := s.Consume(b.queue.Name, 100)
		if err != nil {
			b.Error(err)
			return
		}
		newest, complete := map[string]int{}, 0
		for complete < len(orders) {
			d, err := messages.Next(ctx)
			if err != nil {
				b.Errorf("all events of %d of %d orders are in the queue, then: %v", complete, len(orders), err)
				return
			}
			var order string
			var version int
			if _, err := fmt.Sscanf(string(d.Body), `"%s %d"`, &order, &version); err != nil || version > newest[order]+1 {
				b.Errorf("%s came after version %d: %v", d.Body, newest[order], err)
			}
			if version == newest[order]+1 {
				newest[order] = version
				complete += version / versions // 1 for the last
			}
			_ = d.Ack()
		}
	})
}
