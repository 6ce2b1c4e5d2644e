package relay

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// fail marks events as failed in the outbox, and then publishes a copy of each to the
// dead-letter queue. The outbox has the authoritative state; the copy is only a signal.
func (w *worker) fail(ctx context.Context, claim outbox.Claim, failures []outbox.Failure) {
	for _, failure := range failures {
		i := slices.IndexFunc(claim.Events, func(e outbox.Claimed) bool { return e.ID == failure.ID })
		var at time.Time
		held := w.write(ctx, "failed", 1, func(ctx context.Context) (held int, err error) {
			at, held, err = w.outbox.Fail(ctx, claim.Token, failure)
			return held, err
		})
		if held == 0 {
			continue // the new holder of the event decides about it
		}
		w.metrics.failed.Inc()
		if failure.Counts {
			w.metrics.exhaustions.Inc()
		}
		slog.ErrorContext(ctx, "event failed", "message_id", failure.ID, "failure_code", failure.Code, "error", failure.Reason)
		w.publishDeadLetter(ctx, w.deadLetter(claim.Events[i], failure, at))
	}
}

// publishDeadLetter publishes a copy on its own channel, because this event may have made the
// broker close the channel of the batch.
func (w *worker) publishDeadLetter(ctx context.Context, dead publish.Message) {
	publisher, err := w.broker.NewPublisher(1)
	if err == nil {
		result := publisher.Publish([]publish.Message{dead}, w.config.ConfirmTimeout)[0]
		publisher.Close()
		err = result.Err
	}
	if err != nil {
		w.metrics.deadLetterFailed.Inc()
		slog.WarnContext(ctx, "no copy in the dead-letter queue", "message_id", dead.ID, "error", err)
		return
	}
	w.metrics.deadLettered.Inc()
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// deadLetter returns the copy of a failed event. If the event itself cannot be sent, the copy
// has only the id and the reason.
func (w *worker) deadLetter(e outbox.Claimed, failure outbox.Failure, at time.Time) publish.Message {
	dead := w.config.Message(e)
	if slices.Contains([]string{"too_large", "bad_key", "bad_headers"}, failure.Code) {
		dead = publish.Message{ID: dead.ID, AppID: dead.AppID, Headers: map[string]any{}}
	}
	dead.Destination = w.config.DeadLetters
	dead.Headers["failure-code"] = failure.Code
	dead.Headers["failure-reason"] = failure.Reason
	dead.Headers["failed-at"] = at.UTC().Format(time.RFC3339Nano)
	dead.Headers["retry-count"] = int64(e.RetryCount + boolToInt(failure.Counts))
	return dead
}
