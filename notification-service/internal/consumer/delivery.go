package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// delivery is one message on its way through the consumer.
type delivery struct {
	rabbitmq.Delivery

	// The contexts carry the trace of the message.
	ctx     context.Context //nolint:containedctx // ends with the session: then no ack is possible
	held    context.Context //nolint:containedctx // also ends after Config.MaxHold
	finish  context.Context //nolint:containedctx // outlives the session: see Consumer.finish
	writing context.Context //nolint:containedctx // outlives the session: see Consumer.writing

	id      uuid.UUID
	event   notification.Event
	leased  bool          // this process has the lease of its notification
	done    chan struct{} // closed when the consumer is done with it
	waiting chan struct{} // closed when it only waits: for a copy, for its mark, or for other messages
	once    sync.Once     // closes waiting

	databaseFailures, mailFailures failureHistory
}

func newDelivery(ctx context.Context, d rabbitmq.Delivery) *delivery {
	return &delivery{Delivery: d, ctx: ctx, waiting: make(chan struct{}), done: make(chan struct{})}
}

var errHeldTooLong = errors.New("held for as long as the broker may wait")

// setContexts derives the contexts from ctx.
func (c *Consumer) setContexts(ctx context.Context, d *delivery) (cancel func()) {
	held, cancelHeld := context.WithDeadlineCause(ctx, d.Arrived.Add(c.config.MaxHold), errHeldTooLong)
	finish, cancelFinish := until(ctx, c.finish)
	writing, cancelWriting := until(ctx, c.writing)
	d.ctx, d.held, d.finish, d.writing = ctx, held, finish, writing
	return func() {
		cancelWriting()
		cancelFinish()
		cancelHeld()
	}
}

// until returns a context with the values of ctx, which ends only when end does.
func until(ctx, end context.Context) (context.Context, func()) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(end, cancel)
	return lasting, func() {
		stop()
		cancel()
	}
}

// markWaiting says that the message only waits. It hardly crashes the process any more, so the
// next message may be taken.
func (d *delivery) markWaiting() { d.once.Do(func() { close(d.waiting) }) }

// isTime reports whether the database has t. Far outside these years, its driver overflows, and
// takes the future for the past or the past for now.
func isTime(t time.Time) bool {
	year := t.UTC().Year()
	return !t.IsZero() && year >= 1 && year <= 9999
}

// validate reads the message. Its errors are permanent.
func (c *Consumer) validate(d *delivery) (err error) {
	defer recoverPanic(d.ctx, &err)
	if d.isTooLarge() {
		return deadLetterError{fmt.Errorf("a body of %d bytes, at most %d", d.Size, rabbitmq.MaxBody), TooLarge}
	}
	d.id, err = uuid.Parse(d.ID)
	if err != nil {
		err = fmt.Errorf("message id %q: %w", d.ID, err)
	}
	if !isTime(d.Timestamp) {
		err = errors.Join(err, errors.New("the timestamp is missing or invalid, so the age is unknown"))
	}
	event, parseErr := c.effect.Parse(d.Message)
	if d.event = event; err != nil || parseErr != nil {
		return deadLetterError{errors.Join(err, parseErr), malformed}
	}
	return nil
}

// isTooLarge reports whether the body was left out. No copy of such a message can be made.
func (d *delivery) isTooLarge() bool { return d.Size > rabbitmq.MaxBody }

func (d *delivery) inboxMessage() inbox.Message {
	return inbox.Message{ID: d.id, CreatedAt: d.Timestamp, Forced: d.flag(ForcedHeader)}
}

func (d *delivery) flag(header string) bool {
	set, _ := d.Headers[header].(bool)
	return set
}
