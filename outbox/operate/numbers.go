package operate

import (
	"context"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Backlog has the numbers of events that are not done. Its fields are:
//
//	Pending, InProgress, Failed int // events with this status
//	Unroutable int     // pending events that no queue is bound for
//	OldestDue  float64 // seconds since the oldest due event became due; 0 if none is due
//	SlotAge    float64 // seconds since new events go to the current part of the log
type Backlog = store.Backlog

// Totals has the numbers of finished events. Its fields are:
//
//	Appended  int64 // all events ever appended, also pruned ones; those rolled back count too
//	Discarded int64 // discarded and overtaken events that are still kept; at most the limit
type Totals = store.Totals

// Backlog counts the unfinished events. It estimates numbers above limit.
func (o *Operator) Backlog(ctx context.Context, limit int) (Backlog, error) {
	return o.store.BacklogUpTo(ctx, limit)
}

// Totals counts the finished events. It counts at most limit discarded ones.
func (o *Operator) Totals(ctx context.Context, limit int) (Totals, error) {
	return o.store.Totals(ctx, limit)
}
