package rabbitmq_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

func TestKeepReconnectsWithANewSession(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	proxy, url := b.proxy()
	k := b.keep(url)
	old := k.next()
	proxy.Cut()
	receive(t, old.ctx.Done(), "the end of the session's context")
	if cause := context.Cause(old.ctx); cause == nil || !strings.Contains(cause.Error(), "connection closed") {
		t.Errorf("the context ended with %v", cause)
	}

	exchange, _ := b.route("#", nil)
	expect(t, publishAll(t, b.publisher(k.next(), 1), to(exchange, "a")...), publish.Confirmed)
	if _, err := old.NewPublisher(1); err == nil {
		t.Error("the old session works on")
	}
}

func TestWorkInFlightIsFinishedAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, queue := b.route("#", nil)
	begun, results := make(chan struct{}), make(chan []publish.Result, 1)
	end := b.run(b.url, func(ctx context.Context, s *rabbitmq.Session) error {
		p, err := s.NewPublisher(1)
		if err != nil {
			return err
		}
		close(begun)
		<-ctx.Done()
		results <- publish.All(p, to(exchange, "last"), testTimeout)
		return nil
	})
	receive(t, begun, "the work")
	if err := end(); err != nil {
		t.Error(err)
	}
	expect(t, receive(t, results, "the results of Publish"), publish.Confirmed)
	b.get(queue)
}

func TestKeepReturnsAMismatch(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue := b.queue(amqp.Table{"x-max-length": 5})
	err := rabbitmq.KeepConnected(t.Context(), rabbitmq.Config{URL: b.url, Name: t.Name()}, func(_ context.Context, s *rabbitmq.Session) error {
		return s.Declare(rabbitmq.Topology{Queues: []rabbitmq.DeclaredQueue{{Name: queue, Arguments: map[string]any{"x-max-length": 6}}}})
	})
	if _, ok := errors.AsType[*rabbitmq.MismatchError](err); !ok {
		t.Fatalf("KeepConnected returned %v", err)
	}
	if !strings.Contains(err.Error(), "queue "+queue) || !strings.Contains(err.Error(), "x-max-length") {
		t.Errorf("the error does not name the queue and the argument: %v", err)
	}
}

func TestAServerThatNeverAnswersDoesNotHangKeepConnected(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	proxy, url := b.proxy()
	proxy.Stall()
	k := b.keep(url)
	eventually(t, "KeepConnected gives up and tries again", func() bool { return proxy.Accepted() >= 2 })
	proxy.Resume()
	k.next()
}

func TestKeepReturnsNilAfterItsContext(t *testing.T) {
	t.Parallel()
	for what, prepare := range map[string]func(brokerTest) keeper{
		"before it began": func(b brokerTest) keeper { return b.keep(b.url) },
		"with a session": func(b brokerTest) keeper {
			k := b.keep(b.url)
			k.next()
			return k
		},
		"while it waits to try again": func(b brokerTest) keeper {
			proxy, url := b.proxy()
			proxy.Refuse(true)
			k := b.keep(url)
			eventually(b.T, "an attempt", func() bool { return proxy.Accepted() >= 4 })
			return k
		},
		"in the handshake": func(b brokerTest) keeper {
			proxy, url := b.proxy()
			proxy.Stall()
			k := b.keep(url)
			eventually(b.T, "an attempt", func() bool { return proxy.Accepted() >= 1 })
			return k
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if err := prepare(newBrokerTest(t)).end(); err != nil {
				t.Error(err)
			}
		})
	}
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
			last = time.Now()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
