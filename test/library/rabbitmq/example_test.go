package rabbitmq_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers"
)

// A message counts as delivered only if a queue is bound for it. The broker confirms a message
// without a queue as well, but returns it first.
func ExampleKeepConnected() {
	servers.Example(func(tb testing.TB) {
		name := "example-" + uuid.NewString()
		topology := rabbitmq.Topology{Queues: []rabbitmq.DeclaredQueue{{
			Name: name, Arguments: map[string]any{"x-expires": time.Minute.Milliseconds()},
			Bindings: []rabbitmq.Binding{{Exchange: "amq.topic", Key: name + ".*"}},
		}}}
		ctx, stop := context.WithTimeout(tb.Context(), time.Minute)
		defer stop()

		err := rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: servers.BrokerURL(tb), Name: "an example"},
			func(_ context.Context, s *rabbitmq.Session) error { // again on each new session
				defer stop()
				if err := s.Declare(topology); err != nil {
					return err
				}
				publisher, err := s.NewPublisher(2)
				if err != nil {
					return err
				}
				results := publish.All(publisher, []rabbitmq.Message{
					{ID: uuid.NewString(), Exchange: "amq.topic", RoutingKey: name + ".created", Body: []byte("{}")},
					{ID: uuid.NewString(), Exchange: "amq.topic", RoutingKey: "nobody.listens", Body: []byte("{}")},
				}, 10*time.Second)
				fmt.Println("confirmed:", results[0].Outcome == publish.Confirmed)
				fmt.Println("returned:", results[1].Outcome == publish.Returned)
				return nil
			})
		fmt.Println("error:", err)
	})
	// Output:
	// confirmed: true
	// returned: true
	// error: <nil>
}
