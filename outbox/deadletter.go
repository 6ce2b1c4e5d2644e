package outbox

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// fail marks events as failed in the outbox, and then publishes a copy of each to the dead letters,
// if there are any. The outbox has the authoritative state; the copy is only a signal.
func (w *worker) fail(ctx context.Context, claim store.Claim, failures []store.Failure) {
	for _, failure := range failures {
		var at time.Time
		held := w.write(ctx, "failed", 1, func(ctx context.Context) (held int, err error) {
			at, held, err = w.events.Fail(ctx, claim.Token, failure)
			return held, err
		})
		if held == 0 {
			continue // the new holder of the event decides about it
		}
		w.counters.failed.Add(1)
		if failure.Counts {
			w.counters.exhaustions.Add(1)
		}
		w.log.ErrorContext(ctx, "event failed", "message_id", failure.ID, "failure_code", failure.Code, "error", failure.Reason)
		if w.config.DeadLetters != "" {
			w.publishDeadLetter(ctx, w.deadLetter(eventOf(claim, failure.ID), failure, at))
		}
	}
}

// eventOf returns an event of a claim. Of an event without payload only the id is known.
func eventOf(claim store.Claim, id uuid.UUID) store.Event {
	for _, e := range claim.Events {
		if e.ID == id {
			return e
		}
	}
	return store.Event{ID: id}
}

const codeNoPayload = "no_payload"

// lostPayloads are the failures of events whose payload is missing, for example after a partial
// restore. Nobody can publish them, and they must not keep the relay from the others.
func lostPayloads(lost []uuid.UUID) (failures []store.Failure) {
	for _, id := range lost {
		failures = append(failures, store.Failure{
			ID: id, Code: codeNoPayload, Reason: "the event is in outbox_queue, and its payload is not in outbox_events",
		})
	}
	return failures
}

// publishDeadLetter publishes a copy on its own channel, because this event may have made the
// broker close the channel of the batch.
func (w *worker) publishDeadLetter(ctx context.Context, dead publish.Message) {
	publisher, err := w.session.NewPublisher(1)
	if err == nil {
		result := publisher.Publish([]publish.Message{dead}, w.config.ConfirmTimeout)[0]
		publisher.Close()
		err = result.Err
	}
	if err != nil {
		w.counters.deadLettersMissing.Add(1)
		w.log.trouble(ctx, slog.LevelWarn, "no copy of a failed event at the dead letters", "message_id", dead.ID, "error", err)
		return
	}
	w.counters.deadLettered.Add(1)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// deadLetter returns the copy of a failed event. If the event itself cannot be sent, the copy
// has only the id and the reason.
func (w *worker) deadLetter(e store.Event, failure store.Failure, at time.Time) publish.Message {
	dead := e.Message(w.config.AppID)
	if slices.Contains([]string{"too_large", "bad_topic", "bad_headers", codeNoPayload}, failure.Code) {
		dead = publish.Message{ID: dead.ID, AppID: dead.AppID, Headers: map[string]any{}}
	}
	dead.Destination = w.config.DeadLetters
	dead.Headers["failure-code"] = failure.Code
	dead.Headers["failure-reason"] = failure.Reason
	dead.Headers["failed-at"] = at.UTC().Format(time.RFC3339Nano)
	dead.Headers["retry-count"] = int64(e.RetryCount + boolToInt(failure.Counts))
	return dead
}
