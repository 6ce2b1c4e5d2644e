package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/notification-service/internal/consumer"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers"
)

// greeting is an effect that prints instead of sending e-mails.
type greeting struct{}

func (greeting) Parse(m rabbitmq.Message) (notification.Event, error) {
	return notification.Event{CustomerEmail: string(m.Body)}, nil
}

// Record writes to the database in tx.
func (greeting) Record(_ context.Context, _ pgx.Tx, requests []notification.Request) (all []notification.Notification, err error) {
	for _, r := range requests {
		fmt.Println("recorded once:", r.Event.CustomerEmail)
		all = append(all, notification.Notification{MessageID: r.ID, Event: r.Event, Status: notification.Sending, HasLease: true})
	}
	return all, nil
}

func (greeting) Send(_ context.Context, n notification.Notification) error {
	fmt.Println("sent to", n.Event.CustomerEmail)
	return nil
}

func (greeting) MarkSent(context.Context, notification.Notification) error { return nil }

func (greeting) AfterCommit(notification.Notification)           {}
func (greeting) Release(context.Context, uuid.UUID)              {}
func (greeting) Reject(context.Context, uuid.UUID, string) error { return nil }
func (greeting) Run(ctx context.Context) error                   { <-ctx.Done(); return nil }

// single is a queue of one message, in place of a [rabbitmq.Session].
type single struct {
	messages chan rabbitmq.Message
	stop     func()
}

func (s single) Consume(int) (consumer.Deliveries, error) { return s, nil }
func (single) Stop()                                      {}
func (single) Close()                                     {}

func (s single) Next(ctx context.Context) (rabbitmq.Delivery, error) {
	select {
	case m := <-s.messages:
		return rabbitmq.Delivery{Message: m, Arrived: time.Now(), Ack: func() error {
			defer s.stop()
			fmt.Println("acknowledged")
			return nil
		}}, nil
	case <-ctx.Done():
		return rabbitmq.Delivery{}, ctx.Err()
	}
}

// A consumer of other events needs only its own Effect.
func ExampleNew() {
	servers.Example(func(tb testing.TB) {
		ctx, stop := context.WithCancel(tb.Context())
		db, _ := postgrestest.Migrated(tb, migrations.Schema)
		config := consumer.Config{
			Queue: "greetings", Workers: 8, BatchSize: 16, Prefetch: 32, DeadLetterExchange: "greetings.dlx",
			RetryExchanges: []string{"greetings.retry.30s"}, MaxHold: 10 * time.Minute,
			Probes: map[string]func(context.Context) error{consumer.Database: db.Ping},
		}
		c := consumer.New(config, db, inbox.New(db, 30*24*time.Hour), greeting{}, rabbitmq.NewOutlet(),
			consumer.NewMetrics(prometheus.NewRegistry()))

		queue := single{make(chan rabbitmq.Message, 1), stop}
		queue.messages <- rabbitmq.Message{ID: uuid.NewString(), Timestamp: time.Now(), Body: []byte("Ada")}
		err := c.Run(ctx, func(ctx context.Context) error { return c.Consume(ctx, queue) })
		fmt.Println("stopped:", err)
	})
	// Output:
	// recorded once: Ada
	// sent to Ada
	// acknowledged
	// stopped: <nil>
}
