package rabbitmq_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

// nested is a header that RabbitMQ keeps and no Go client reads.
func nested(depth int) amqp.Table {
	t := amqp.Table{"deep": true}
	for range depth {
		t = amqp.Table{"t": t}
	}
	return t
}

func (b brokerTest) putUnreadable(queue string) {
	b.Helper()
	b.withChannel(func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		killer := amqp.Publishing{MessageId: "unreadable", Headers: nested(64)}
		confirmation, err := c.PublishWithDeferredConfirm("", queue, true, false, killer)
		if err == nil && !confirmation.Wait() {
			err = errors.New("the message was not taken")
		}
		return err
	})
}

// TestP9AnUnreadableMessageIsNoOutage: the message ends the session, and KeepConnected connects
// again at once, until the delivery limit removes the message. A pause would take virtual time.
func TestP9AnUnreadableMessageIsNoOutage(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue := b.queue(amqp.Table{"x-delivery-limit": 5})
	b.putUnreadable(queue)
	b.put(queue, "good")
	synctest.Test(t, func(t *testing.T) {
		began, sessions, taken := time.Now(), 0, make(chan string, 1)
		ctx, stop := context.WithCancel(t.Context())
		err := rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: b.url, Name: t.Name()}, func(ctx context.Context, s *rabbitmq.Session) error {
			sessions++
			c, err := s.Deliveries(queue)
			if err != nil {
				return err
			}
			if err := c.Start(1); err != nil {
				return err
			}
			d, err := c.Next(ctx)
			if err == nil {
				defer stop()
				taken <- d.ID
				return d.Ack()
			}
			// When Next returns, the context has the reason.
			if cause := context.Cause(ctx); !errors.Is(cause, rabbitmq.ErrUnreadable) {
				t.Errorf("Next returned %v, and the session ended with %v", err, cause)
			}
			return err
		})
		if id := <-taken; id != "good" || err != nil {
			t.Errorf("took %s, error %v", id, err)
		}
		if waited := time.Since(began); sessions < 5 || waited > 0 {
			t.Errorf("%d sessions with pauses of %s in all, want some, and no pauses", sessions, waited)
		}
	})
}

func TestACutKeepsTheGrowingPauses(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	proxy, url := b.proxy()
	synctest.Test(t, func(t *testing.T) {
		last, sessions := time.Now(), 0
		ctx, stop := context.WithCancel(t.Context())
		err := rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: url, Name: t.Name()}, func(ctx context.Context, _ *rabbitmq.Session) error {
			pause := time.Since(last)
			if least := time.Duration(sessions) * 140 * time.Millisecond; pause < least {
				t.Errorf("a pause of %s before session %d, want %s at least", pause, sessions, least)
			}
			if sessions++; sessions == 4 {
				stop()
				return nil
			}
			proxy.Cut()
			<-ctx.Done()
			if cause := context.Cause(ctx); errors.Is(cause, rabbitmq.ErrUnreadable) {
				t.Errorf("a cut is %v", cause)
			}
			last = time.Now()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAResetSessionIsNotUnreadable(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	proxy, url := b.proxy()
	k := b.keep(url)
	s := k.next()
	proxy.Reset()
	receive(t, s.ctx.Done(), "the end of the session's context")
	if cause := context.Cause(s.ctx); errors.Is(cause, rabbitmq.ErrUnreadable) {
		t.Errorf("a reset is %v", cause)
	}
}
