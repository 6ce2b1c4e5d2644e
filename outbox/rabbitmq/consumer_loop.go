package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/internal/crashpoint"
)

// errNotReady says that the handler failed, and that it could not have handled another message.
var errNotReady = errors.New("the handler is not ready")

// maxTakePause is for a handler that says that it is ready, and then fails and is not ready, again
// and again. Each time counts towards the delivery limit of the message, so it must not happen often.
const maxTakePause = 5 * time.Minute

// takeWhileReady takes messages while the handler is ready.
func (c *Consumer) takeWhileReady(ctx context.Context, s *Session) error {
	var ch *channel
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstReadyPause, maxTakePause
	for c.awaitReady(ctx) {
		if ch == nil || ch.closed {
			deliveries, err := s.Deliveries(c.queue.Name)
			if err != nil {
				return err
			}
			ch = &channel{Deliveries: deliveries, most: c.queue.Prefetch}
		}
		c.waitFor("")
		c.queue.Logger.InfoContext(ctx, "taking messages", "queue", c.queue.Name)
		before := c.stats.handled.Load()
		err := c.take(ctx, ch)
		for err == nil && ctx.Err() == nil {
			err = c.take(ctx, ch)
		}
		if !errors.Is(err, errNotReady) {
			return err
		}
		if c.stats.handled.Load() > before {
			pause.Reset()
		}
		// Perhaps a message has made the handler not ready. It counts, so it must be alone the next time.
		c.proven.Store(false)
		c.pauseBecause(ctx, err, pause.NextBackOff())
	}
	return nil
}

func (c *Consumer) pauseBecause(ctx context.Context, err error, pause time.Duration) {
	if ctx.Err() != nil {
		return
	}
	c.waitFor("its handler: " + err.Error())
	c.queue.Logger.WarnContext(ctx, "no messages are taken",
		"queue", c.queue.Name, "in", pause.Round(time.Millisecond).String(), "error", err)
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// channel is where the consumer takes messages of a session, and where it must acknowledge them.
type channel struct {
	*Deliveries
	copying atomic.Int64 // messages that wait for the confirm of their copy, and are not acknowledged
	full    bool         // the only place of the prefetch has a message whose copy takes long
	closed  bool
	former  bool // a message of a former topic has come, and is in the log
	most    int  // so many messages come at a time; fewer, if some had to be given back
}

// take receives messages: one by one until c.proven is set, and batches when it is. If the copy of
// a single message takes long, it ends: the next call has a place for another message. What was not
// handled goes back to the queue, and explicitly: RabbitMQ 4.3 counts it towards the delivery limit
// only if the channel ends.
func (c *Consumer) take(ctx context.Context, ch *channel) error {
	prefetch, batchSize, proven := 1, 1, c.proven.Load()
	if proven {
		prefetch, batchSize = c.queue.Prefetch, c.queue.BatchSize
	}
	if err := ch.Start(min(prefetch, ch.most)); err != nil {
		return err
	}
	ch.full = false
	handled := c.stats.handled.Load()
	var unhandled []*message
	var err error
	for err == nil && len(unhandled) == 0 && ctx.Err() == nil && !ch.full && c.proven.Load() == proven {
		unhandled, err = c.takeBatch(ctx, ch, batchSize)
	}
	ch.Stop()
	if err == nil && ctx.Err() == nil && len(unhandled) > 0 { // they came too early, and before 4.3 RabbitMQ counts that
		ch.most = max(1, int(c.stats.handled.Load()-handled)) //nolint:gosec // at most what the queue had
	}
	// The first one may be why the handler is not ready. Then it must count: otherwise it comes first
	// again and again, and stops all others.
	ch.closed = errors.Is(err, errNotReady) && ch.copying.Load() == 0
	for i, m := range unhandled {
		var failed error
		if i > 0 || !ch.closed {
			failed = m.Requeue()
		}
		m.endSpan("requeued", failed)
	}
	if ch.closed {
		ch.Close()
	}
	return err
}

// message is a delivery on its way through a consumer.
type message struct {
	Delivery
	span   trace.Span // of the work on it, see consumer_observe.go
	failed error      // Check has panicked
}

// takeBatch waits for a message, and handles what has arrived by then. After the end of ctx it
// takes nothing.
func (c *Consumer) takeBatch(ctx context.Context, ch *channel, limit int) (unhandled []*message, err error) {
	batch, err := ch.nextBatch(ctx, limit)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, nil
	case err != nil:
		return nil, err
	}
	alone, together := c.check(ctx, ch, batch)
	unhandled, err = c.handleEach(ctx, ch, alone)
	if err != nil || len(unhandled) > 0 || c.isLate(together) {
		return append(unhandled, together...), err
	}
	if len(together) == 0 {
		return nil, nil
	}
	if c.handle(together) != nil { //nolint:contextcheck // a call goes on until c.finish
		return c.handleEach(ctx, ch, together)
	}
	return nil, c.acknowledge(ch, together)
}

// check returns the messages that may be handled. The others become dead letters. A message that
// has failed before is handled alone, so that it fails no others again. So is one that is the only
// one.
func (c *Consumer) check(ctx context.Context, ch *channel, batch []Delivery) (alone, together []*message) {
	c.stats.received.Add(uint64(len(batch)))
	for _, d := range batch {
		crashpoint.At("consumer.arrived", d.ID)
		m := c.startSpan(ctx, d)
		if !ch.former && c.queue.isFormer(d.RoutingKey) {
			ch.former = true
			c.queue.Logger.WarnContext(ctx, "a message of a former topic has come: it waited in the queue, or an older program binds the topic again",
				"message_id", d.ID, "queue", c.queue.Name, "routing_key", d.RoutingKey)
		}
		if code, err := d.cannotCopy(); err != nil { // it is too large, or its headers cannot be read
			c.deadLetter(ctx, ch, m, code, err)
			continue
		}
		err := withoutPanic(ctx, c.queue.Logger, func() error {
			if m.ID == "" && c.queue.ID != nil {
				m.ID = c.queue.ID(m.Message)
			}
			return c.queue.Check(m.Message)
		})
		switch {
		case errors.Is(err, errPanic):
			m.failed = err // a mistake in Check is no fault of the message
			alone = append(alone, m)
		case err != nil:
			c.deadLetter(ctx, ch, m, CodeMalformed, err)
		case retryCount(d.Message) > 0:
			alone = append(alone, m)
		default:
			together = append(together, m)
		}
	}
	if len(together) == 1 {
		return append(alone, together...), nil
	}
	return alone, together
}

// handleEach handles messages one by one. It returns what it does not come to.
func (c *Consumer) handleEach(ctx context.Context, ch *channel, messages []*message) (unhandled []*message, _ error) {
	for i, m := range messages {
		if ctx.Err() != nil || c.isLate(messages[i:]) {
			return messages[i:], nil
		}
		err := m.failed
		if err == nil {
			err = c.handle(messages[i : i+1]) //nolint:contextcheck // the same
		}
		if err == nil {
			err = c.acknowledge(ch, messages[i:i+1])
		} else {
			err = c.fail(ctx, ch, m, err)
		}
		if err != nil {
			return messages[i:], err
		}
	}
	return nil, nil
}

// isLate is true if these messages are to be given back, because the broker's time-out is near.
func (c *Consumer) isLate(messages []*message) bool {
	return len(messages) > 0 && time.Since(messages[0].arrived) > c.queue.ConsumerTimeout/2
}

// fail decides about a message that has failed alone with err.
func (c *Consumer) fail(ctx context.Context, ch *channel, m *message, err error) error {
	if c.finish.Err() != nil {
		return fmt.Errorf("not handled before the end: %w", err)
	}
	c.stats.failed.Add(1)
	if code, ok := permanent(err); ok {
		c.deadLetter(ctx, ch, m, code, err)
		return nil
	}
	now, notReady := c.ready(c.finish) //nolint:contextcheck // the same
	if notReady != nil {
		return fmt.Errorf("%w: %w; the message: %w", errNotReady, notReady, err)
	}
	c.retry(ctx, ch, m, err, now)
	return nil
}

// acknowledge is for messages that were handled. For a batch, one frame acknowledges all up to the
// last one, which spares system calls here, and work in the broker. It would also acknowledge what
// still waits for its copy: then each message gets a frame. After an error they come again.
func (c *Consumer) acknowledge(ch *channel, messages []*message) (err error) {
	crashpoint.At("consumer.handled")
	if len(messages) > 1 && ch.copying.Load() == 0 {
		err = messages[len(messages)-1].ackAllBefore()
	} else {
		for _, m := range messages {
			err = errors.Join(err, m.Ack())
		}
	}
	for _, m := range messages {
		c.done(m, "handled", &c.stats.handled, err)
	}
	if err != nil {
		return fmt.Errorf("acknowledging: %w", err)
	}
	return nil
}

// done ends the work on a message. An error says that it comes again.
func (c *Consumer) done(m *message, outcome string, count *atomic.Uint64, err error) {
	m.endSpan(outcome, err)
	if err != nil {
		return
	}
	count.Add(1)
	if !m.Redelivered {
		c.proven.Store(true)
	}
}
