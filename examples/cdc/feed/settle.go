package feed

import (
	"context"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Settle finishes the events as well: the queue has what becomes of those that were not published.
// At the end of a claim, the rest of its events can be claimed again.
func (f *Feed) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	settled, err := f.Store.Settle(ctx, s)
	if err != nil {
		return settled, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ids := range [][]uuid.UUID{s.Published, s.Overtaken} {
		for _, id := range ids {
			f.setDone(id)
		}
	}
	for _, failure := range s.Failures {
		f.setDone(failure.ID)
	}
	if s.End {
		f.release(s.Token)
	}
	if len(s.Paused)+len(s.Resumed) > 0 || s.RetryAll {
		f.poll.next = time.Time{} // the table has events to halt, or some that are due again
	}
	f.trim()
	return settled, nil
}

// release lets the events of a claim be claimed again.
func (f *Feed) release(token uuid.UUID) {
	for _, e := range f.entries {
		if e.state == claimed && e.claim == token {
			e.state = waiting
		}
	}
}
