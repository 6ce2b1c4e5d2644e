package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"example.com/transactional-outbox/outbox/internal/crashpoint"
	"example.com/transactional-outbox/outbox/publish"
)

// Headers of the copies. Those that every further copy keeps do not begin with x-, see
// [Message.Copy].
const (
	RetryCountHeader       = "retry-count"       // how many retries the message has had
	FirstFailedAtHeader    = "first-failed-at"   // by the handler's clock, RFC 3339; dead letters have none
	FailureCodeHeader      = "failure-code"      // why it is a dead letter, from a small set
	FailureReasonHeader    = "failure-reason"    // why it was copied, for people
	FailedAtHeader         = "failed-at"         // when it was dead-lettered, by the handler's clock, RFC 3339
	OriginalExchangeHeader = "original-exchange" // where it was published first
)

// The codes of the consumer's own dead letters.
const (
	CodeMalformed = "malformed"         // Queue.Check has refused it
	CodePermanent = "permanent"         // the handler has returned ErrPermanent
	CodePanicked  = "panicked"          // the handler panicked, until Queue.GiveUp
	CodeExhausted = "retries-exhausted" // it failed until Queue.GiveUp
)

// retry moves a message to the next retry queue, or to the dead letters if it has failed for too
// long. It comes back from the retry queue after the delay.
func (c *Consumer) retry(ctx context.Context, ch *channel, m *message, err error, now time.Time) {
	first := timeOf(m.Message, FirstFailedAtHeader, now)
	if now.Sub(first) >= c.queue.GiveUp {
		code := CodeExhausted
		if errors.Is(err, errPanic) {
			code = CodePanicked
		}
		c.deadLetter(ctx, ch, m, code, err)
		return
	}
	retries := retryCount(m.Message)
	delay := c.queue.Retry[min(retries, int64(len(c.queue.Retry)-1))]
	moved := m.copyTo(c.queue.retryExchange(delay), map[string]any{
		RetryCountHeader:    retries + 1,
		FirstFailedAtHeader: first.UTC().Format(time.RFC3339Nano),
		FailureReasonHeader: truncate(err.Error()),
	})
	if why := moved.check(); why != nil {
		c.deadLetter(ctx, ch, m, CodeRejected, fmt.Errorf("there can be no copy for a retry: %w; the failure: %w", why, err))
		return
	}
	c.queue.Logger.WarnContext(ctx, "message waits for a retry",
		"message_id", m.ID, "queue", c.queue.Name, "in", delay.String(), "retry_count", retries+1, "error", err)
	c.move(ctx, ch, m, moved, "retried", &c.stats.retried)
}

// cannotCopy returns why there can be no copy of a message: what it was is not known here.
func (d Delivery) cannotCopy() (code string, err error) {
	if d.Size > MaxBody {
		return CodeTooLarge, fmt.Errorf("%w: %d bytes, at most %d", publish.ErrTooLarge, d.Size, MaxBody)
	}
	return CodeUnreadable, d.unreadable()
}

// deadLetter moves a message to the dead letters. A message that is too large for a copy is
// rejected, and the broker itself moves it, without a reason. So does one whose headers cannot be
// read or sent.
func (c *Consumer) deadLetter(ctx context.Context, ch *channel, m *message, code string, err error) {
	c.queue.Logger.ErrorContext(ctx, "message dead-lettered",
		"message_id", m.ID, "queue", c.queue.Name, "routing_key", m.RoutingKey, "failure_code", code, "error", err)
	moved := m.copyTo(c.queue.deadLetterExchange(), map[string]any{
		RetryCountHeader:    retryCount(m.Message),
		FailureCodeHeader:   code,
		FailureReasonHeader: truncate(err.Error()),
		FailedAtHeader:      c.now().UTC().Format(time.RFC3339),
	})
	delete(moved.Headers, FirstFailedAtHeader) // if somebody replays it, its time begins again
	c.move(ctx, ch, m, moved, "dead_lettered", &c.stats.deadLettered)
}

// permanent returns the code of an error that says that to try again does not help.
func permanent(err error) (code string, ok bool) {
	if own, ok := errors.AsType[interface {
		error
		DeadLetterCode() string
	}](err); ok {
		return own.DeadLetterCode(), true
	}
	return CodePermanent, errors.Is(err, ErrPermanent)
}

// copyTo returns a copy for this exchange, with these headers. If they are too much, it has no
// reason.
func (m *message) copyTo(exchange string, headers map[string]any) Message {
	moved := m.Copy()
	moved.Exchange = exchange
	if _, known := moved.Headers[OriginalExchangeHeader]; !known {
		moved.Headers[OriginalExchangeHeader] = m.Exchange
	}
	maps.Copy(moved.Headers, headers)
	if moved.check() != nil {
		delete(moved.Headers, FailureReasonHeader)
	}
	return moved
}

// longCopy is much more than a copy usually takes.
const longCopy = 250 * time.Millisecond

// move publishes the copy, and acknowledges the original when the copy is confirmed. It does so in
// a goroutine of its own: until then the original keeps its place in the prefetch, and other
// messages go on. While messages are taken one by one, it waits for the copy unless that takes
// long.
func (c *Consumer) move(ctx context.Context, ch *channel, m *message, moved Message, outcome string, count *atomic.Uint64) {
	ch.copying.Add(1) // until it is acknowledged, and for ever if it comes again
	if !c.takePlace(ctx) {
		m.endSpan("failed", context.Cause(ctx))
		return
	}
	made := make(chan struct{})
	c.moving.Go(func() {
		defer close(made)
		defer func() { <-c.places }()
		err := c.publishUntilConfirmed(ctx, m, moved)
		crashpoint.At("consumer.copied", m.ID)
		switch {
		case errors.Is(err, publish.ErrInvalid):
			outcome, count, err = "dead_lettered", &c.stats.deadLettered, m.Reject()
		case err == nil:
			err = m.Ack()
		}
		if err == nil {
			ch.copying.Add(-1)
		} else {
			c.queue.Logger.WarnContext(ctx, "not acknowledged, it will come again", "message_id", m.ID, "error", err)
		}
		c.done(m, outcome, count, err)
	})
	if c.proven.Load() {
		return
	}
	select {
	case <-made:
	case <-time.After(longCopy):
		ch.full = true
	}
}

// takePlace returns false if there is no place before the end of ctx.
func (c *Consumer) takePlace(ctx context.Context) bool {
	select {
	case c.places <- struct{}{}:
		return true
	default:
	}
	select {
	case c.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	// Pauses between the attempts at a copy.
	firstCopyPause = 250 * time.Millisecond
	maxCopyPause   = 10 * time.Second
	// copyTimeout limits the two parts of an attempt: the wait for a session with the broker, and
	// the wait for the confirm.
	copyTimeout = 10 * time.Second
	// copyWindow is about how many copies wait for their confirms on one channel.
	copyWindow = 256
)

// publishUntilConfirmed tries until the broker has confirmed the copy, or until ctx ends: then the
// original comes again. An attempt that has begun goes on, until c.finish.
func (c *Consumer) publishUntilConfirmed(ctx context.Context, m *message, moved Message) error {
	if _, err := m.cannotCopy(); err != nil {
		return err
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstCopyPause, maxCopyPause
	failures := 0
	_, err := backoff.Retry(ctx, func() (struct{}, error) { //nolint:contextcheck // an attempt goes on until c.finish
		err := c.publishCopy(moved)
		if errors.Is(err, publish.ErrInvalid) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		c.stats.copyFailures.Add(1)
		if failures++; failures == 1 {
			c.queue.Logger.WarnContext(ctx, "no copy yet, trying until there is one",
				"message_id", m.ID, "exchange", moved.Exchange, "error", err)
		}
	}))
	if err != nil {
		return fmt.Errorf("copying to %s: %w", moved.Exchange, err)
	}
	return nil
}

// copyRequest is a copy for the session that publishes copies.
type copyRequest struct {
	message Message
	done    chan error // nil: the broker has confirmed it, and routed it to a queue
}

// publishCopy makes one attempt. After an error the broker may or may not have the copy.
func (c *Consumer) publishCopy(m Message) error {
	ctx, cancel := context.WithTimeout(c.finish, copyTimeout)
	defer cancel()
	request := copyRequest{m, make(chan error, 1)}
	select {
	case c.copies <- request:
		return <-request.done
	case <-ctx.Done():
		return fmt.Errorf("waiting for a session: %w", context.Cause(ctx))
	}
}

// publishCopies publishes copies in one session. It takes none while the broker blocks. After a
// copy that no queue is bound for, the session ends: a queue is gone, and the next session declares
// it again. It waits for the answers to the copies that it has taken.
func (c *Consumer) publishCopies(ctx context.Context, s *Session) error {
	if !c.queue.NoDeclare {
		if err := s.Declare(c.queue.copyTopology()); err != nil {
			return err
		}
	}
	publisher, err := s.NewPublisher(copyWindow)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	var answers sync.WaitGroup
	defer answers.Wait()
	for s.Unblocked(ctx) == nil {
		select {
		case request := <-c.copies:
			answers.Go(func() { //nolint:contextcheck // it has a timeout
				result := publish.All(publisher, []Message{request.message}, copyTimeout)[0]
				switch result.Outcome {
				case publish.Unknown, publish.NotSent, publish.Returned:
					select {
					case failed <- fmt.Errorf("publishing a copy: %w", result.Err):
					default: // another copy has ended the session
					}
				default:
				}
				request.done <- result.Err
			})
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// retryCount reads a header that anyone may have written.
func retryCount(m Message) int64 {
	switch n := m.Headers[RetryCountHeader].(type) {
	case int64:
		return max(0, n)
	case int32:
		return max(0, int64(n))
	default:
		return 0
	}
}

// timeOf reads a header that anyone may have written. A time in the future counts as now.
func timeOf(m Message, header string, now time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, text(m.Headers[header]))
	if err != nil || at.After(now) {
		return now
	}
	return at
}

// maxReason bounds the header failure-reason, in bytes.
const maxReason = 512

func truncate(reason string) string {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	return strings.ToValidUTF8(reason, "")
}
