package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/notification-service/internal/consumer"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/migrations"
)

// greeting is an effect: what a message of ours causes. One in production writes to the
// database in Record, and in Complete looks at what it wrote.
type greeting struct{ stop func() }

func (greeting) Parse(m rabbitmq.Message) (string, error) { return string(m.Body), nil }

func (greeting) Record(_ context.Context, _ *postgres.Tx, _ uuid.UUID, name string) error {
	fmt.Println("recorded once:", name)
	return nil
}

func (g greeting) Complete(context.Context, uuid.UUID) (left bool, err error) {
	defer g.stop()
	fmt.Println("completed")
	return true, nil
}

// single is a queue of one message, in place of a [rabbitmq.Session].
type single struct{ message rabbitmq.Message }

func (s *single) Consume(int) (consumer.Deliveries, error) { return s, nil }
func (*single) Close()                                     {}

func (s *single) Next(ctx context.Context) (rabbitmq.Delivery, error) {
	if ctx.Err() != nil {
		return rabbitmq.Delivery{}, ctx.Err()
	}
	return rabbitmq.Delivery{Message: s.message, Arrived: time.Now(), Ack: func() error {
		fmt.Println("acknowledged")
		return nil
	}}, nil
}

// A consumer for events of one's own needs an Effect, and nothing else that is new.
func ExampleNew() {
	servertest.Example(func(tb testing.TB) {
		ctx, stop := context.WithCancel(tb.Context())
		db, _ := servertest.Migrated(tb, postgres.Migrations{Files: migrations.Files})
		config := consumer.Config{
			Queue: "greetings", Workers: 8, Prefetch: 32, DeadLetters: "greetings.dlx",
			Retries: []string{"greetings.retry.30s"}, MaxHold: 10 * time.Minute,
			Probes: map[string]func(context.Context) error{consumer.Database: db.Ping},
		}
		c := consumer.New(config, db, inbox.New(db, 30*24*time.Hour), greeting{stop}, rabbitmq.NewOutlet(),
			consumer.NewMetrics(prometheus.NewRegistry()))

		err := c.Run(ctx, &single{rabbitmq.Message{ID: uuid.NewString(), Timestamp: time.Now(), Body: []byte("Ada")}})
		fmt.Println("stopped:", err)
	})
	// Output:
	// recorded once: Ada
	// completed
	// acknowledged
	// stopped: <nil>
}
