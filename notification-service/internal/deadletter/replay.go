package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/notification-service/internal/consumer"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// confirmTimeout is how long the broker may take to confirm a copy.
const confirmTimeout = 30 * time.Second

// replay makes one copy at a time, and removes the message after the broker has confirmed it.
func (r *run) replay(ctx context.Context, f Found) (refusal string, err error) {
	if err := r.awaitUnblocked(ctx); err != nil {
		return "", err
	}
	id, key := f.ID, f.RoutingKey
	result := publish.All(r.publisher, []rabbitmq.Message{r.copy(f.Message)}, confirmTimeout)[0]
	switch result.Outcome {
	case publish.Confirmed:
	case publish.Invalid:
		return "cannot be sent: " + result.Err.Error(), nil
	default:
		err = fmt.Errorf("%w: %s (%s) to %s: %w; %s", ErrNotTaken, id, key, r.queue.Requeue, result.Err, cli.Advice(result.Outcome))
		if result.Outcome == publish.Unknown {
			err = unclearError{err}
		}
		return "", err
	}
	crashpoint.At("deadletter.copied")
	if err := f.Remove(); err != nil {
		return "", unclearError{fmt.Errorf("%s was sent and is still here: %w", id, err)}
	}
	slog.InfoContext(ctx, "dead letter replayed", "message_id", id, "routing_key", key,
		"failure_code", f.Code, "failure_reason", f.Reason, "size", f.Size, "forced", r.Force, "by", r.By.Operator, "decision", r.By.Decision)
	return "", nil
}

// ErrBlocked and ErrNotTaken say why a message was not replayed.
var (
	ErrBlocked  = errors.New("the broker takes no messages: it has a memory alarm or a disk alarm")
	ErrNotTaken = errors.New("the broker did not take a copy")
)

// awaitUnblocked waits until the broker takes messages.
func (r *run) awaitUnblocked(ctx context.Context) error {
	if r.MaxBlocked > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.MaxBlocked, ErrBlocked)
		defer cancel()
	}
	if err := r.session.Unblocked(ctx); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return nil
}

// copy returns the message as it was before it failed.
func (r *run) copy(m rabbitmq.Message) rabbitmq.Message {
	m = m.Copy()
	m.Exchange = r.queue.Requeue
	for _, header := range []string{
		consumer.RetryCountHeader, consumer.ElsewhereCountHeader, consumer.DeferredCountHeader,
		consumer.FailureCodeHeader, consumer.FailureReasonHeader, consumer.FailedAtHeader, consumer.ForcedHeader,
	} {
		delete(m.Headers, header)
	}
	m.Headers[consumer.ReplayedHeader] = true
	m.Headers[consumer.DecisionHeader] = r.By.Decision.String()
	if r.Force {
		m.Headers[consumer.ForcedHeader] = true
	}
	return m
}
