package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/notification"
)

// handle brings one message to its end, and reports whether the broker was told. If not,
// because ctx ended first or the session did, the broker delivers it again.
func (c *Consumer) handle(ctx context.Context, m *message) (settled bool) {
	ctx, span := c.startSpan(ctx, m.Delivery)
	defer span.End()
	slog.InfoContext(ctx, "message arrived", "message_id", m.ID, "routing_key", m.RoutingKey, "redelivered", m.Redelivered)
	crashpoint.At("consumer.arrived", m.ID)
	outcome, err := c.process(ctx, m)
	note(span, outcome, err)
	if err != nil {
		slog.WarnContext(ctx, "not acknowledged, it will come again", "message_id", m.ID, "error", err)
		return false
	}
	c.metrics.count(outcome)
	return true
}

var errHeldTooLong = errors.New("held for as long as the broker may wait")

// process tries until the message has its effect and is acknowledged, or until it waits
// elsewhere: in a retry queue, or among the dead letters.
func (c *Consumer) process(ctx context.Context, m *message) (outcome, error) {
	if err := c.read(ctx, m); err != nil {
		return c.putElsewhere(ctx, m, err)
	}
	held, cancel := context.WithDeadlineCause(ctx, m.Arrived.Add(c.config.MaxHold), errHeldTooLong)
	defer cancel()
	release, err := c.inHand.take(held, m)
	if err != nil {
		return c.putElsewhere(ctx, m, err)
	}
	defer func() { c.release(ctx, m, release) }()
	for {
		outcome, err := c.attempt(held, m)
		switch {
		case err == nil:
			crashpoint.At("consumer.completed")
			return outcome, m.Ack()
		case !errors.Is(err, errTryAgain):
			return c.putElsewhere(ctx, m, err)
		}
		slog.DebugContext(ctx, "message held", "message_id", m.ID, "error", err)
	}
}

// errTryAgain says that nothing was spent, and that the message waits for its turn again.
var errTryAgain = errors.New("what the message needs is away")

// attempt makes one attempt at the effect, when what that needs is there.
func (c *Consumer) attempt(ctx context.Context, m *message) (outcome, error) {
	mail, err := c.mail.enter(ctx)
	if err != nil {
		return "", fmt.Errorf("waiting for %s: %w", c.mail.name, err)
	}
	defer mail.leave()
	found, err := c.lease(ctx, m)
	if err != nil {
		return "", err
	}
	if found.verdict == inbox.OutsideWindow {
		return "", deadLetterError{fmt.Errorf("created at %s", m.Timestamp), OutsideDedupeWindow}
	}
	switch {
	case found.notification.Mine:
		return success, c.send(ctx, m, mail, found.notification)
	case found.verdict == inbox.First:
		return success, nil // superseded
	default:
		return duplicate, nil
	}
}

// maxWait is how long a message waits in place for another process that has it in hand.
const maxWait = 3 * time.Second

// lease records the message, together with others, and leases its notification if there is
// something left to do. If another process has the lease, it waits for a moment.
func (c *Consumer) lease(ctx context.Context, m *message) (recorded, error) {
	return backoff.Retry(ctx, func() (recorded, error) {
		found, err := c.recordOnce(ctx, m)
		switch {
		case err != nil:
			return found, backoff.Permanent(err)
		case found.notification.Status == notification.Sending && !found.notification.Mine:
			return found, heldElsewhereError{fmt.Errorf("another process is sending the e-mail of message %s", m.ID)}
		default:
			m.leased = m.leased || found.notification.Mine
			return found, nil
		}
	}, backoff.WithMaxElapsedTime(maxWait))
}

func (c *Consumer) recordOnce(ctx context.Context, m *message) (recorded, error) {
	database, err := c.database.enter(ctx)
	if err != nil {
		return recorded{}, fmt.Errorf("waiting for %s: %w", c.database.name, err)
	}
	defer database.leave()
	found, err := c.records.Do(ctx, m)
	if err != nil {
		return recorded{}, err
	}
	if found.err == nil {
		database.accept()
		return found, nil
	}
	return recorded{}, m.judge(ctx, database, &m.database, ofDatabase(found.err))
}

// staleAfter is how long a message may wait for its turn to be sent without another look
// at the database: a newer event of its order may have come.
const staleAfter = time.Second

// send sends the e-mail of a leased notification, when it is its turn.
func (c *Consumer) send(ctx context.Context, m *message, mail *ticket, n notification.Notification) error {
	err := c.sendInTurn(ctx, m, mail, n)
	if err == nil {
		m.leased = false
		return nil
	}
	return m.judge(ctx, mail, &m.mail, err)
}

func (c *Consumer) sendInTurn(ctx context.Context, m *message, mail *ticket, n notification.Notification) error {
	leased := time.Now()
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.slots }()
	if time.Since(leased) > staleAfter {
		found, err := c.lease(ctx, m)
		if err != nil || !found.notification.Mine {
			return err
		}
	}
	if !mail.valid() {
		return errTryAgain
	}
	sending, cancel := c.lasting(ctx)
	defer cancel()
	err := c.sendSafely(sending, n)
	if err == nil {
		mail.accept()
	}
	return err
}

// sendSafely turns a panic into an error.
func (c *Consumer) sendSafely(ctx context.Context, n notification.Notification) (err error) {
	defer recovered(ctx, &err)
	return c.effect.Send(ctx, n)
}

// lasting returns a context that goes on when the session has ended, until the consumer's
// time to finish is over. To break an e-mail off in the middle would be to send it twice.
func (c *Consumer) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.finish, cancel)
	return lasting, func() {
		stop()
		cancel()
	}
}

// maxFailures is how often a message may meet an error that is certainly the dependency's,
// while others are accepted in between. Beyond this many, the error is the message's own.
const maxFailures = 5

// judge finds out whose fault an error is. It returns errTryAgain if the dependency is at
// fault, or if nobody knows yet. Otherwise it returns the error that decides what becomes of
// the message.
func (m *message) judge(ctx context.Context, t *ticket, s *suspicion, err error) error {
	away, isAway := errors.AsType[Unavailable](err)
	unclear, isUnclear := errors.AsType[Unclear](err)
	switch {
	case ctx.Err() != nil && (isAway || isUnclear):
		return context.Cause(ctx)
	case isUnclear && unclear.Dependency() == t.name:
		slog.WarnContext(ctx, "message held", "message_id", m.ID, "dependency", t.name, "error", err)
		m.onlyWaits()
		if t.suspect(ctx, s, err) {
			return unclear.Otherwise()
		}
	case isAway && away.Dependency() == t.name:
		if t.failed(ctx, s, err) >= maxFailures {
			if own, may := errors.AsType[interface {
				error
				OwnFault
			}](err); may && own.OwnFault() != nil {
				return fmt.Errorf("it failed %d times while others were accepted: %w", maxFailures, own.OwnFault())
			}
		}
	default:
		return err
	}
	return fmt.Errorf("%w: %w", errTryAgain, err)
}
