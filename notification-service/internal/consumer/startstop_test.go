package consumer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/notification-service/internal/consumer"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers"
)

// TestP12AConsumerMayBeStoppedAtAnyMoment starts and stops a consumer a hundred times
// while messages come. The broker counts the deliveries of a message that is not acknowledged.
// No message may reach the delivery limit.
//
// After all tests, goleak checks that no goroutine is left.
func TestP12AConsumerMayBeStoppedAtAnyMoment(t *testing.T) {
	t.Parallel()
	b := newStopFixture(t)
	stopSending := b.send()
	servers.StartAndStop(t, 100, 60*time.Millisecond, b.run, b.wantNobodyConnected)
	sent := stopSending()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var last errgroup.Group
	last.Go(func() error { return b.run(ctx) })
	b.awaitEffects(sent)
	stop()
	if err := last.Wait(); err != nil {
		t.Error(err)
	}
	b.wantNobodyConnected()
	b.wantOnce(sent)
}

// stopFixture is a consumer between a queue and a database of the test's own.
type stopFixture struct {
	*testing.T
	db    *postgres.DB
	proxy *servers.Proxy
	url   string
	queue string
	dead  string
}

func newStopFixture(t *testing.T) *stopFixture {
	t.Helper()
	b := &stopFixture{T: t, queue: "test-" + uuid.NewString()}
	b.dead = b.queue + ".dead"
	b.db, _ = postgrestest.Migrated(t, migrations.Schema)
	b.exec("CREATE TABLE effects (message_id uuid NOT NULL)")
	b.proxy, b.url = servers.ProxyFor(t, servers.BrokerURL(t))
	b.onSession(t.Context(), func(_ context.Context, s *rabbitmq.Session) error { return s.Declare(b.topology()) })
	return b
}

// topology has the delivery limit that the service has.
func (b *stopFixture) topology() rabbitmq.Topology {
	expires := time.Minute.Milliseconds()
	return rabbitmq.Topology{
		Queues: []rabbitmq.DeclaredQueue{
			{Name: b.queue, Arguments: map[string]any{
				"x-expires": expires, "x-delivery-limit": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": b.dead,
			}},
			{Name: b.dead, Arguments: map[string]any{"x-expires": expires}},
		},
	}
}

// effects are rows without a primary key, so they could be written twice.
type effects struct{}

func (effects) Parse(rabbitmq.Message) (notification.Event, error) { return notification.Event{}, nil }

func (effects) Record(ctx context.Context, tx pgx.Tx, requests []notification.Request) (all []notification.Notification, err error) {
	for _, r := range requests {
		all = append(all, notification.Notification{MessageID: r.ID, Status: notification.Sent})
		if r.First {
			err = postgres.Write(ctx, tx, "writing the effect", "INSERT INTO effects VALUES (@id)", postgres.Args{"id": r.ID})
		}
	}
	return all, err
}

func (effects) AfterCommit(notification.Notification)                     {}
func (effects) Send(context.Context, notification.Notification) error     { return nil }
func (effects) MarkSent(context.Context, notification.Notification) error { return nil }
func (effects) Release(context.Context, uuid.UUID)                        {}
func (effects) Reject(context.Context, uuid.UUID, string) error           { return nil }
func (effects) Run(ctx context.Context) error                             { <-ctx.Done(); return nil }

// source lets the consumer see a session through its own interface.
type source struct {
	*rabbitmq.Session
	queue string
}

func (s source) Consume(prefetch int) (consumer.Deliveries, error) {
	return s.Session.Consume(s.queue, prefetch)
}

// run runs one consumer until ctx ends.
func (b *stopFixture) run(ctx context.Context) error {
	c := consumer.New(consumer.Config{
		Queue: b.queue, Workers: 4, BatchSize: 8, Prefetch: 8, DeadLetterExchange: b.dead, RetryExchanges: []string{b.dead}, MaxHold: time.Minute,
		Probes: map[string]func(context.Context) error{consumer.Database: b.db.Ping},
	}, b.db, inbox.New(b.db, time.Hour), effects{}, rabbitmq.NewOutlet(), consumer.NewMetrics(prometheus.NewRegistry()))
	return c.Run(ctx, func(ctx context.Context) error {
		return rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: b.url, Name: b.Name()}, func(ctx context.Context, s *rabbitmq.Session) error {
			return c.Consume(ctx, source{s, b.queue})
		})
	})
}

// onSession uses a session that does not go through the proxy.
func (b *stopFixture) onSession(ctx context.Context, do func(context.Context, *rabbitmq.Session) error) {
	b.Helper()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err := rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: servers.BrokerURL(b), Name: b.Name()}, func(ctx context.Context, s *rabbitmq.Session) error {
		defer stop()
		if err := do(ctx, s); err != nil {
			b.Error(err)
		}
		return nil
	})
	if err != nil {
		b.Error(err)
	}
}

// send publishes messages until stop, which returns how many there were.
func (b *stopFixture) send() (stop func() int) {
	ctx, cancel := context.WithCancel(b.Context())
	n := 0
	var sending sync.WaitGroup
	sending.Go(func() {
		b.onSession(b.Context(), func(_ context.Context, s *rabbitmq.Session) error {
			publisher, err := s.NewPublisher(1)
			for err == nil && ctx.Err() == nil {
				m := rabbitmq.Message{ID: uuid.NewString(), RoutingKey: b.queue, Timestamp: time.Now()}
				err = publish.All(publisher, []rabbitmq.Message{m}, time.Minute)[0].Err
				n++
			}
			return err
		})
	})
	return func() int {
		cancel()
		sending.Wait()
		return n
	}
}

// wantNobodyConnected wants no open connection after the consumer has ended.
func (b *stopFixture) wantNobodyConnected() {
	b.Helper()
	b.eventually("its connections are closed", func() bool { return b.proxy.Open() == 0 })
}

func (b *stopFixture) awaitEffects(n int) {
	b.Helper()
	b.eventually("every message has its effect", func() bool { return b.count("DISTINCT message_id", "effects") >= n })
}

func (b *stopFixture) eventually(what string, holds func() bool) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("never: " + what)
		}
	}
}

// wantOnce wants one effect of each message, and no dead letter.
func (b *stopFixture) wantOnce(sent int) {
	b.Helper()
	if n := b.count("*", "effects"); n != sent {
		b.Errorf("%d messages had %d effects", sent, n)
	}
	if n := b.count("*", "pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"); n > 0 {
		b.Errorf("%d transactions are left open", n)
	}
	b.onSession(b.Context(), func(_ context.Context, s *rabbitmq.Session) error {
		for _, queue := range []string{b.queue, b.dead} {
			left, err := s.Browse(queue)
			if err != nil {
				return err
			}
			if n := left.Count(); n > 0 {
				b.Errorf("%d messages are left in %s", n, queue)
			}
		}
		return nil
	})
}

func (b *stopFixture) count(what, rows string) (n int) {
	b.Helper()
	err := b.db.InSnapshot(b.Context(), func(tx pgx.Tx) error {
		return tx.QueryRow(b.Context(), "SELECT count("+what+") FROM "+rows).Scan(&n)
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func (b *stopFixture) exec(statement string) {
	b.Helper()
	err := b.db.InTx(b.Context(), func(tx pgx.Tx) error { return postgres.Write(b.Context(), tx, "", statement, nil) })
	if err != nil {
		b.Fatal(err)
	}
}
