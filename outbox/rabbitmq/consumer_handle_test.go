package rabbitmq_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/internal/handling"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// TestP12AHandlerThatDoesNotReturn is named, and does not keep Run from its end. Its message stays in
// the queue.
func TestP12AHandlerThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	end, log := make(chan struct{}), &bytes.Buffer{}
	t.Cleanup(func() { close(end) })
	c := newConsumerTest(t, func(q *rabbitmq.Queue) {
		q.HandleTimeout, q.ShutdownTimeout, q.Logger = 50*time.Millisecond, 50*time.Millisecond, slog.New(slog.NewTextHandler(log, nil))
	}, func([]rabbitmq.Message) error { <-end; return nil })
	c.start()
	if c.publish("stuck"); c.consumer.Overdue() != 0 {
		t.Error("it is overdue before it has begun")
	}
	eventually(t, "it is overdue", func() bool { return c.consumer.Overdue() > time.Second })
	err := c.consumer.Health()
	if err == nil || !strings.Contains(err.Error(), " s ago: message stuck") {
		t.Errorf("health: %v", err)
	}
	must(t, c.stop())
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "message_id=stuck") {
		t.Errorf("%d errors: %s", n, log)
	}
	if left := brokertest.Take(t, c.queue.Name); len(left) != 1 {
		t.Errorf("%d messages are left", len(left))
	}
}

// beside is an inbox that counts how often its Run is called.
type beside struct{ runs atomic.Int64 }

func (b *beside) Run(context.Context) error { b.runs.Add(1); return nil }

// TestAnInboxThatIsReachedAfterTheEndDoesNotRun: nobody would wait for it.
func TestAnInboxThatIsReachedAfterTheEndDoesNotRun(t *testing.T) {
	t.Parallel()
	end, reached, inbox := make(chan struct{}), make(chan struct{}), &beside{}
	c := newConsumerTest(t, func(q *rabbitmq.Queue) { q.HandleTimeout, q.ShutdownTimeout = 50*time.Millisecond, 50*time.Millisecond }, nil)
	c.startWith(rabbitmq.HandlerFunc(func(ctx context.Context, _ []rabbitmq.Message) error {
		<-end
		handling.Found(ctx, inbox)
		close(reached)
		return nil
	}))
	c.publish("stuck")
	eventually(t, "it is overdue", func() bool { return c.consumer.Overdue() > 0 })
	must(t, c.stop())
	close(end)
	if <-reached; inbox.runs.Load() != 0 {
		t.Error("it runs")
	}
}

// TestAHandlerThatEndsItsGoroutine has failed, as with t.FailNow.
func TestAHandlerThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	c := newConsumerTest(t, nil, func([]rabbitmq.Message) error {
		if calls.Add(1) == 1 {
			runtime.Goexit()
		}
		return nil
	})
	c.start()
	c.publish("1")
	c.await(1, 1, 0)
}
