package rabbitmq_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is how long a test waits for an event before it fails.
const limit = 2 * time.Minute

// openSession returns a session that lasts as long as the test.
func openSession(t *testing.T) *rabbitmq.Session {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	sessions, ended := make(chan *rabbitmq.Session), make(chan error, 1)
	go func() {
		ended <- rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: brokertest.URL(), Name: t.Name()},
			func(ctx context.Context, s *rabbitmq.Session) error {
				select {
				case sessions <- s:
					<-ctx.Done()
				case <-ctx.Done():
				}
				return nil
			})
	}()
	t.Cleanup(func() {
		stop()
		if err := receive(t, ended, "the end of KeepConnected"); err != nil {
			t.Errorf("KeepConnected returned %v", err)
		}
	})
	return receive(t, sessions, "a session")
}

// deleteDeclared deletes what was declared, when the test ends.
func deleteDeclared(tb testing.TB, declared rabbitmq.Topology) {
	tb.Helper()
	for _, e := range declared.Exchanges {
		brokertest.DeleteExchanges(tb, e.Name)
	}
	for _, q := range declared.Queues {
		brokertest.DeleteQueues(tb, q.Name)
	}
}

var must, eventually = dbtest.Must, dbtest.Await // many lines have them

// receive waits for a value, and fails the test when none comes.
func receive[T any](t *testing.T, values <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-values:
	case <-time.After(limit):
		t.Fatalf("no %s within the time limit", what)
	}
	return v
}
