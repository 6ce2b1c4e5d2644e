package relay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/test/servers"
)

// session adapts a session to the relay's interface.
type session struct{ *rabbitmq.Session }

func (s session) NewPublisher(window int) (publish.Publisher, error) {
	return s.NewEventPublisher(window)
}

// A relay runs on one session after the other. The next session publishes what the last one
// left.
func ExampleRelay() {
	servers.Example(func(tb testing.TB) {
		ctx, stop := context.WithTimeout(tb.Context(), time.Minute)
		defer stop()
		db, _ := servers.Migrated(tb, postgres.Migrations{Files: migrations.Files})
		queue := "example-" + uuid.NewString()
		topology := rabbitmq.Topology{Queues: []rabbitmq.Queue{{
			Name: queue, Arguments: map[string]any{"x-expires": time.Minute.Milliseconds()},
			Bindings: []rabbitmq.Binding{{Exchange: "amq.topic", Key: "example.*"}},
		}}}
		r := relay.New(relay.Config{
			System: "rabbitmq", Destination: "amq.topic", AppID: "an example", Workers: 1, BatchSize: 500, PollInterval: time.Second,
			Lease: time.Minute, ConfirmTimeout: 10 * time.Second, MaxAttempts: 20, RetryBase: time.Second, RetryCap: time.Minute,
		}, outbox.NewStore(db), relay.NewMetrics(prometheus.NewRegistry()))

		err := db.InTx(ctx, func(tx *postgres.Tx) error {
			return outbox.Append(ctx, tx, outbox.Message{
				ID: uuid.New(), AggregateType: "example", AggregateID: uuid.New(), AggregateVersion: 1,
				EventKey: "example.happened", Payload: []byte(`{"hello": "world"}`),
			})
		})
		fmt.Println("committed:", err == nil)
		r.Wake() // or the next poll finds it

		err = rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: servers.BrokerURL(tb), Name: "an example"},
			func(ctx context.Context, s *rabbitmq.Session) error {
				if err := s.Declare(topology); err != nil {
					return err
				}
				go func() {
					defer stop()
					messages, _ := s.Consume(queue, 1)
					m, _ := messages.Next(ctx)
					fmt.Println("in the queue:", string(m.Body))
				}()
				return r.Run(ctx, session{s})
			})
		fmt.Println("stopped:", err)
	})
	// Output:
	// committed: true
	// in the queue: {"hello": "world"}
	// stopped: <nil>
}
