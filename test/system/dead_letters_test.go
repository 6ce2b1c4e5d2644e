package system

import (
	"reflect"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// wantNoDeadLetters wants notification-service's dead-letter queue to be empty.
func (s *system) wantNoDeadLetters() {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) error {
		m, ok, err := c.Get(deadLetterQueue, true)
		if ok {
			s.Errorf("%s is a dead letter: %v", m.MessageId, m.Headers)
		}
		return err
	})
}

// wantDeadLetterCount wants n dead letters within the limit, and leaves them in the queue.
func (s *system) wantDeadLetterCount(limit time.Duration, n int) {
	s.Helper()
	if got := 0; !eventually(limit, func() bool { got = s.readyMessages(deadLetterQueue); return got == n }) {
		s.Errorf("after %s: %d dead letters, want %d", limit, got, n)
	}
}

// awaitDeadLetters waits until each of these messages was in the dead-letter queue. It
// ignores repeats: a copy whose confirm was lost may be there twice.
func (s *system) awaitDeadLetters(want []amqp.Publishing) {
	s.Helper()
	missing := map[string]amqp.Publishing{}
	for _, m := range want {
		missing[m.MessageId] = m
	}
	s.withChannel(func(c *amqp.Channel) (err error) {
		poll(20*time.Millisecond, awaitTimeout, func() bool {
			for len(missing) > 0 {
				d, ok, getErr := c.Get(deadLetterQueue, true)
				if err = getErr; err != nil || !ok {
					return err != nil
				}
				if m, wanted := missing[d.MessageId]; wanted {
					wantUnchanged(s.T, d, m)
					delete(missing, d.MessageId)
				}
			}
			return true
		})
		return err
	})
	if len(missing) > 0 {
		s.Fatalf("%d dead letters are missing", len(missing))
	}
}

// wantHeaders wants a dead letter to have these headers, a reason and a time, and no other
// headers. The queue itself adds x-delivery-count.
func wantHeaders(t *testing.T, dead amqp.Delivery, want amqp.Table) {
	t.Helper()
	for name, value := range want {
		if !reflect.DeepEqual(dead.Headers[name], value) {
			t.Errorf("header %s is %v, want %v", name, dead.Headers[name], value)
		}
	}
	if reason, _ := dead.Headers["failure-reason"].(string); reason == "" {
		t.Errorf("no reason in %v", dead.Headers)
	}
	at, _ := dead.Headers["failed-at"].(string)
	if _, err := time.Parse(time.RFC3339, at); err != nil {
		t.Errorf("no time in %v", dead.Headers)
	}
	for name := range dead.Headers {
		_, wanted := want[name]
		if !wanted && !slices.Contains([]string{"failure-reason", "failed-at", "x-delivery-count"}, name) {
			t.Errorf("header %s was copied", name)
		}
	}
}
