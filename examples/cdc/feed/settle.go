package feed

import (
	"context"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// MarkPublished finishes the events as well.
func (f *Feed) MarkPublished(ctx context.Context, token uuid.UUID, ids []uuid.UUID) error {
	err := f.Store.MarkPublished(ctx, token, ids)
	if err == nil {
		f.finish(ids...)
	}
	return err
}

// Overtake finishes the events as well: a newer one supersedes them.
func (f *Feed) Overtake(ctx context.Context, token uuid.UUID, ids []uuid.UUID) error {
	err := f.Store.Overtake(ctx, token, ids)
	if err == nil {
		f.finish(ids...)
	}
	return err
}

// Reschedule finishes the events: the queue has the time of their next attempt.
func (f *Feed) Reschedule(ctx context.Context, token uuid.UUID, failures []store.Failure) (held int, err error) {
	if held, err = f.Store.Reschedule(ctx, token, failures); err == nil {
		for _, failure := range failures {
			f.finish(failure.ID)
		}
	}
	return held, err
}

// Fail finishes the event: it stays in the queue as failed.
func (f *Feed) Fail(ctx context.Context, token uuid.UUID, failure store.Failure) (at time.Time, held int, err error) {
	if at, held, err = f.Store.Fail(ctx, token, failure); err == nil {
		f.finish(failure.ID)
	}
	return at, held, err
}
