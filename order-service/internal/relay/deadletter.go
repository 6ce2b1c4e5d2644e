package relay

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// fail gives events up: first in the outbox, which is the truth, and then with a copy
// in the dead-letter queue, which is a signal.
func (w *worker) fail(ctx context.Context, claim outbox.Claim, failures []outbox.Setback) {
	for _, failure := range failures {
		i := slices.IndexFunc(claim.Events, func(e outbox.Claimed) bool { return e.ID == failure.ID })
		var at time.Time
		held := w.write(ctx, "failed", 1, func(ctx context.Context) (held int, err error) {
			at, held, err = w.outbox.Fail(ctx, claim.Token, failure)
			return held, err
		})
		if held == 0 {
			continue // whoever holds the event now gives it up, or does not
		}
		w.metrics.failed.Inc()
		if failure.Spends {
			w.metrics.exhaustions.Inc()
		}
		slog.ErrorContext(ctx, "event failed", "message_id", failure.ID, "failure_code", failure.Code, "error", failure.Reason)
		w.bury(ctx, w.deadLetter(claim.Events[i], failure, at))
	}
}

// bury publishes a copy on a channel of its own: the batch's may have been closed
// over this very event.
func (w *worker) bury(ctx context.Context, dead rabbitmq.Message) {
	publisher, err := w.broker.NewPublisher(1)
	if err == nil {
		result := publisher.Publish([]rabbitmq.Message{dead}, w.config.ConfirmTimeout)[0]
		publisher.Close()
		err = result.Err
	}
	if err != nil {
		w.metrics.notCopied.Inc()
		slog.WarnContext(ctx, "no copy in the dead-letter queue", "message_id", dead.ID, "error", err)
		return
	}
	w.metrics.copied.Inc()
}

func spent(failure outbox.Setback) int {
	if failure.Spends {
		return 1
	}
	return 0
}

// deadLetter is the copy of a failed event. Of one that no broker could take, it
// carries the id and the reason only.
func (w *worker) deadLetter(e outbox.Claimed, failure outbox.Setback, at time.Time) rabbitmq.Message {
	dead := w.config.Message(e)
	if slices.Contains([]string{"too_large", "bad_key", "bad_headers"}, failure.Code) {
		dead = rabbitmq.Message{ID: dead.ID, AppID: dead.AppID, Headers: map[string]any{}}
	}
	dead.Exchange = w.config.DeadLetters
	dead.Headers["failure-code"] = failure.Code
	dead.Headers["failure-reason"] = failure.Reason
	dead.Headers["failed-at"] = at.UTC().Format(time.RFC3339Nano)
	dead.Headers["retry-count"] = int64(e.RetryCount + spent(failure))
	return dead
}
