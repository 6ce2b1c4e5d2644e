package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/internal/handling"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// TestP9ABadMessageStopsNoOther: each kind of bad message becomes a dead letter at once, unchanged,
// with the reason. The others of its batch are handled. An error that panics, such as a nil pointer
// that is returned as an error, does not end the process.
func TestP9ABadMessageStopsNoOther(t *testing.T) {
	t.Parallel()
	refuse := func(m rabbitmq.Message) error {
		if m.ID == "bad" {
			return errFake
		}
		return nil
	}
	giveUp := func(q *rabbitmq.Queue) { q.GiveUp = time.Nanosecond }
	var none *nilError
	for name, test := range map[string]struct {
		change func(*rabbitmq.Queue)
		result func([]rabbitmq.Message) error
		code   string
	}{
		"refused by Check": {func(q *rabbitmq.Queue) { q.Check = refuse }, nil, rabbitmq.CodeMalformed},
		"Check panics long": {func(q *rabbitmq.Queue) {
			giveUp(q)
			q.Check = func(m rabbitmq.Message) error {
				if refuse(m) != nil {
					panic("a bug")
				}
				return nil
			}
		}, nil, rabbitmq.CodePanicked},
		"permanent":          {nil, failing("bad", fmt.Errorf("%w: %w", rabbitmq.ErrPermanent, errFake)), rabbitmq.CodePermanent},
		"with own code":      {nil, failing("bad", fmt.Errorf("wrapped: %w", coded{})), "own"},
		"given up":           {giveUp, failing("bad", errFake), rabbitmq.CodeExhausted},
		"panicking long":     {giveUp, panicking("bad"), rabbitmq.CodePanicked},
		"a text that panics": {giveUp, failing("bad", none), rabbitmq.CodePanicked},
		"a code that panics": {giveUp, failing("bad", codeless{}), rabbitmq.CodePanicked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsumerTest(t, test.change, test.result)
			c.publish("0", "1", "bad", "2")
			c.start()
			if test.code == rabbitmq.CodeExhausted || test.code == rabbitmq.CodePanicked {
				c.await(3, 1, 0) // the first failure is now, and the next one is later
				c.handler.set(func(h *fakeHandler) { h.now = h.now.Add(time.Second) })
			}
			d := c.deadLetter("bad")
			if string(d.Body) != "body of bad" || d.Headers["failure-code"] != test.code ||
				d.Headers["original-exchange"] != c.queue.Exchange || !hasSendersHeaders(d.Headers) {
				t.Errorf("body %q, headers %v", d.Body, d.Headers)
			}
			if at, _ := time.Parse(time.RFC3339, fmt.Sprint(d.Headers["failed-at"])); at.Year() != databaseTime.Year() {
				t.Errorf("failed at %s, which is not the database's time", d.Headers["failed-at"])
			}
			if d.Headers["first-failed-at"] != nil {
				t.Error("after a replay it would be a dead letter at once")
			}
			c.await(3, 0, 1)
			c.wantEmpty()
		})
	}
}

// coded is permanent, because it has a code of its own.
type coded struct{}

func (coded) Error() string          { return "coded" }
func (coded) DeadLetterCode() string { return "own" }

// nilError is an error that panics when its text is read from a nil pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// codeless panics when its code is asked for.
type codeless struct{}

func (codeless) Error() string          { return "codeless" }
func (codeless) DeadLetterCode() string { panic("a bug") }

func panicking(id string) func([]rabbitmq.Message) error {
	return func(batch []rabbitmq.Message) error {
		if failing(id, errFake)(batch) != nil {
			panic("a bug")
		}
		return nil
	}
}

// TestAFailedMessageIsTriedAgainAfterTheDelays, of which the last one repeats. It keeps the time of
// its first failure, and counts. The handler continues its trace, with what it appends to an
// outbox.
func TestAFailedMessageIsTriedAgainAfterTheDelays(t *testing.T) {
	t.Parallel()
	c := newConsumerTest(t, func(q *rabbitmq.Queue) {
		q.Retry = []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}
	}, failing("bad", errFake))
	c.publish("good", "bad")
	c.start()
	c.await(1, 5, 0)
	c.handler.set(func(h *fakeHandler) { h.now = databaseTime.Add(24*time.Hour - time.Second) }) // of its first failure
	c.await(1, 20, 0)
	c.handler.set(func(h *fakeHandler) { h.result = nil })
	c.await(2, 20, 0)
	var last rabbitmq.Message
	for len(c.handler.calls) > 0 {
		for _, m := range <-c.handler.calls {
			if m.ID != "bad" {
				continue
			}
			last = m
			if n, _ := m.Headers["retry-count"].(int64); n > 0 {
				delay := []string{"10ms", "20ms"}[min(n, 2)-1]
				if d, _ := m.Death(); d.Queue != c.queue.Name+".retry."+delay {
					t.Errorf("retry %d comes from %q, want the queue of %s", n, d.Queue, delay)
				}
			}
		}
	}
	if n, _ := last.Headers["retry-count"].(int64); n < 5 {
		t.Errorf("the retry count is %v", last.Headers["retry-count"])
	}
	if last.Headers["first-failed-at"] != databaseTime.Format(time.RFC3339Nano) || last.Headers["failure-reason"] != errFake.Error() ||
		!hasSendersHeaders(last.Headers) {
		t.Errorf("the headers are %v", last.Headers)
	}
	c.wantEmpty()
	outside := rabbitmq.Message{Headers: last.Headers} // of another consumer
	for _, m := range []rabbitmq.Message{last, outside} {
		if got := trace.SpanContextFromContext(m.Context(t.Context())).TraceID(); got.String() != strings.Split(parent, "-")[1] {
			t.Errorf("the handler continues the trace %s", got)
		}
	}
}

// hasSendersHeaders is true for a copy that has what the sender has set, and is not routed by it.
func hasSendersHeaders(headers map[string]any) bool {
	cc, _ := headers["original-cc"].([]any)
	return headers["traceparent"] == parent && headers["x-tenant"] == int64(7) && headers["CC"] == nil && len(cc) == 1
}

// TestP9AMessageThatWasRetriedIsHandledAlone: it would fail the others of its batch each time. To
// acknowledge it acknowledges none of them: the database is away when they are handled.
func TestP9AMessageThatWasRetriedIsHandledAlone(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	var c *consumerTest
	c = newConsumerTest(t, nil, func(batch []rabbitmq.Message) error {
		if batch[0].ID == "slow" {
			close(began)
			<-goOn
		}
		if len(batch) == 1 {
			return nil
		}
		fail := func([]rabbitmq.Message) error { return errFake }
		c.handler.set(func(h *fakeHandler) { h.away, h.result = errFake, fail })
		time.AfterFunc(100*time.Millisecond, func() { c.handler.set(func(h *fakeHandler) { h.away, h.result = nil, nil }) })
		return errFake
	})
	c.start()
	c.publish("first") // from now on it takes batches
	c.await(1, 0, 0)
	c.publish("slow")
	receive(t, began, "call")
	c.publish("1", "2")
	brokertest.Publish(t, c.queue.Exchange, "order.created", amqp.Publishing{MessageId: "retried", Headers: amqp.Table{"retry-count": int64(1)}})
	c.publish("3")
	c.awaitTaken()
	close(goOn)
	c.await(6, 0, 0)
	for range 2 {
		receive(t, c.handler.calls, "call")
	}
	if alone := receive(t, c.handler.calls, "call"); len(alone) != 1 || alone[0].ID != "retried" {
		t.Errorf("%d messages are handled together with it", len(alone)-1)
	}
	if others := receive(t, c.handler.calls, "call"); len(others) != 3 {
		t.Errorf("%d others are handled together, want 3", len(others))
	}
	c.wantEmpty()
}

// TestP9NothingIsCopiedWhileTheHandlerIsNotReady: however often the handler fails, and also if the
// handler is a function that calls an inbox. Before it was ready once, nothing is taken.
func TestP9NothingIsCopiedWhileTheHandlerIsNotReady(t *testing.T) {
	t.Parallel()
	away := func(h *fakeHandler) {
		h.away, h.result = errFake, func([]rabbitmq.Message) error { return errFake }
	}
	for _, wrapped := range []bool{false, true} {
		c := newConsumerTest(t, nil, nil)
		awaitNotReady := func() {
			eventually(t, "the consumer says why it waits", func() bool {
				return strings.Contains(fmt.Sprint(c.consumer.Health()), errFake.Error())
			})
		}
		c.publish("1")
		if wrapped {
			c.startWith(rabbitmq.HandlerFunc(func(ctx context.Context, batch []rabbitmq.Message) error {
				handling.Found(ctx, c.handler)
				return c.handler.Handle(ctx, batch)
			}))
		} else {
			c.handler.away = errFake
			c.start()
			awaitNotReady()
			if n := c.consumer.Received(); n != 0 {
				t.Errorf("%d messages were taken", n)
			}
			c.handler.set(func(h *fakeHandler) { h.away = nil })
		}
		c.await(1, 0, 0)
		c.handler.set(away)
		c.publish("2", "3", "4")
		awaitNotReady()
		c.handler.set(func(h *fakeHandler) { h.away, h.result = nil, nil })
		c.await(4, 0, 0)
		if done, _ := c.consumer.Stats(); done["retried"] > 0 {
			t.Errorf("%d messages were copied", done["retried"])
		}
		c.wantEmpty()
	}
}

// TestP9AfterAConnectMessagesComeOneByOne: until a message is acknowledged that had not been
// delivered before. So a message that kills the process takes no other with it.
func TestP9AfterAConnectMessagesComeOneByOne(t *testing.T) {
	t.Parallel()
	c, began, goOn := newBlockedTest(t)
	c.publish("1", "2", "3", "4", "5")
	c.start()
	receive(t, began, "call")
	if batch := <-c.handler.calls; len(batch) != 1 {
		t.Errorf("the first batch has %d messages", len(batch))
	}
	ready, _, err := openSession(t).CountReady(c.queue.Name)
	if err != nil || ready != 4 {
		t.Errorf("%d of 4 messages are still in the queue, error %v", ready, err)
	}
	close(goOn)
	c.await(5, 0, 0)
	c.wantEmpty()
}

func TestP12WhatIsInFlightIsFinishedAtTheEnd(t *testing.T) {
	t.Parallel()
	c, began, goOn := newBlockedTest(t)
	c.publish("1")
	c.start()
	receive(t, began, "call")
	ended := make(chan error, 1)
	go func() { ended <- c.stop() }()
	eventually(t, "nothing more is taken", func() bool {
		c.publish("2")
		ready, _, err := openSession(t).CountReady(c.queue.Name)
		return err == nil && ready > 0
	})
	close(goOn)
	must(t, receive(t, ended, "end"))
	if c.consumer.Health() == nil {
		t.Error("the consumer has ended, and is healthy")
	}
	for _, d := range brokertest.Take(t, c.queue.Name) {
		if d.MessageId == "1" {
			t.Error("it was handled, and comes again")
		}
	}
}

// runner is a handler whose own work ends with an error.
type runner struct{ rabbitmq.HandlerFunc }

func (runner) Run(context.Context) error { return errFake }

func TestTheHandlersOwnWorkEndsRun(t *testing.T) {
	t.Parallel()
	consumer, err := rabbitmq.NewConsumer(brokertest.URL(), rabbitmq.Queue{Name: "nobody", Exchange: brokertest.Name(), Topics: []string{"#"}}, runner{})
	must(t, err)
	if err := consumer.Run(t.Context()); !errors.Is(err, errFake) {
		t.Errorf("Run returned %v", err)
	}
	c := newConsumerTest(t, nil, nil)
	c.publish("1")
	consumer, err = rabbitmq.NewConsumer(brokertest.URL(), c.queue, rabbitmq.HandlerFunc(func(ctx context.Context, _ []rabbitmq.Message) error {
		handling.Found(ctx, &runner{}) // an inbox
		return nil
	}))
	must(t, err)
	if err := consumer.Run(t.Context()); !errors.Is(err, errFake) {
		t.Errorf("with an inbox that it calls, Run returned %v", err)
	}
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	handler := rabbitmq.HandlerFunc(func(context.Context, []rabbitmq.Message) error { return nil })
	for want, q := range map[string]rabbitmq.Queue{
		"":                 {Name: "q", Exchange: "e", Topics: []string{"#"}},
		"name":             {Exchange: "e", Topics: []string{"#"}},
		"Topics":           {Name: "q", Exchange: "e"},
		"retry":            {Name: "q", Retry: []time.Duration{0}},
		"GiveUp":           {Name: "q", GiveUp: -1},
		"BatchSize":        {Name: "q", BatchSize: -1},
		"Prefetch":         {Name: "q", Prefetch: 5000},
		"DeliveryLimit":    {Name: "q", DeliveryLimit: -1},
		"HandleTimeout":    {Name: "q", HandleTimeout: -1},
		"ConsumerTimeout":  {Name: "q", ConsumerTimeout: time.Minute},
		"FormerTopics":     {Name: "q", FormerTopics: []string{"a"}},
		"NoDeclare":        {Name: "q", Exchange: "e", Topics: []string{"b"}, FormerTopics: []string{"a"}, NoDeclare: true},
		`"a" is in Topics`: {Name: "q", Exchange: "e", Topics: []string{"a"}, FormerTopics: []string{"a"}},
		"ShutdownTimeout":  {Name: "q", ShutdownTimeout: -1},
	} {
		_, err := rabbitmq.NewConsumer(brokertest.URL(), q, handler)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", q, err, want)
		}
	}
	if _, err := rabbitmq.NewConsumer("http://a", rabbitmq.Queue{Name: "q"}, handler); err == nil {
		t.Error("a URL of another protocol was taken")
	}
	if _, err := rabbitmq.NewConsumer(brokertest.URL(), rabbitmq.Queue{Name: "q"}, nil); err == nil {
		t.Error("no handler was taken")
	}
}
