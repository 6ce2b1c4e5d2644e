package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/notification-service/internal/inbox"
)

// handle processes one delivery, and reports whether the broker knows the outcome. If not,
// because the session or ctx ended first, the broker delivers the message again.
func (c *Consumer) handle(ctx context.Context, d *delivery) (settled bool) {
	ctx, span := c.startSpan(ctx, d.Delivery)
	defer span.End()
	defer c.setContexts(ctx, d)()
	telemetry.Milestone(ctx, "message arrived", "message_id", d.ID, "routing_key", d.RoutingKey, "redelivered", d.Redelivered)
	crashpoint.At("consumer.arrived", d.ID)
	outcome, err := c.process(d) //nolint:contextcheck // d carries its contexts
	recordOutcome(span, outcome, err)
	if err != nil {
		slog.WarnContext(ctx, "not acknowledged, it will come again", "message_id", d.ID, "error", err)
		return false
	}
	c.metrics.count(outcome)
	return true
}

// process tries until the message has its effect and is acknowledged, or until a copy of it is
// in a retry queue or among the dead letters.
func (c *Consumer) process(d *delivery) (outcome, error) {
	if err := c.validate(d); err != nil {
		return c.retryOrDeadLetter(d, err)
	}
	releaseID, err := c.inFlight.acquire(d)
	if err != nil {
		return c.retryOrDeadLetter(d, err)
	}
	defer func() { c.release(d, releaseID) }()
	for {
		outcome, err := c.attempt(d)
		switch {
		case err == nil:
			crashpoint.At("consumer.completed")
			return outcome, d.Ack()
		case !errors.Is(err, errTryAgain):
			return c.retryOrDeadLetter(d, err)
		}
		slog.DebugContext(d.ctx, "message held", "message_id", d.ID, "error", err)
	}
}

// errTryAgain says that the message waits for the gate again. No retry is spent.
var errTryAgain = errors.New("what the message needs is away")

// attempt makes one attempt at the effect, when the gates are open.
func (c *Consumer) attempt(d *delivery) (outcome, error) {
	mail, err := c.mail.enter(d.held)
	if err != nil {
		return "", fmt.Errorf("waiting for %s: %w", c.mail.name, err)
	}
	defer mail.release()
	found, err := c.lease(d)
	if err != nil {
		return "", err
	}
	if found.inbox == inbox.OutsideWindow {
		return "", deadLetterError{fmt.Errorf("created at %s", d.Timestamp), OutsideDedupeWindow}
	}
	switch {
	case found.notification.HasLease:
		return success, c.send(d, mail, found.notification)
	case found.inbox == inbox.First:
		return success, nil // superseded
	default:
		return duplicate, nil
	}
}

// release gives back the lease of a notification that was not sent, and then the message's id.
// It does so in the background, because the database may be away. Only another delivery of the
// same message waits for it.
func (c *Consumer) release(d *delivery, releaseID func()) {
	if !d.leased {
		releaseID()
		return
	}
	c.running.Go(func() {
		defer releaseID()
		c.effect.Release(d.ctx, d.id)
	})
}
