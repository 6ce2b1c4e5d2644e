package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// mendTime is how long it may take until all e-mails are sent, once what they needed is
// mended.
const mendTime = 15 * time.Second

// published are the ids of the events that are published by now, of all customers, or
// without some.
func (y *system) published(ctx context.Context, without ...string) ([]string, error) {
	rows, _ := y.orderDB.Query(ctx, `
		SELECT id::text FROM outbox_events
		WHERE status = 'published' AND payload->>'customer_email' <> ALL ($1)`, without)
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

const settledSQL = `
SELECT count(*) FROM notifications WHERE status IN ('sent', 'superseded', 'rejected') AND message_id = ANY ($1::uuid[])`

// awaitEffects wants these messages to have their effect within some time. If they have
// not, the promise is broken.
func (y *system) awaitEffects(ctx context.Context, ids []string, within time.Duration, promise, when string) error {
	settled := 0
	for deadline := time.Now().Add(within); settled < len(ids); {
		if time.Now().After(deadline) {
			y.complain(promise, "%d of %d messages have no effect %s %s", len(ids)-settled, len(ids), within, when)
			return nil
		}
		if err := errors.Join(y.endOldLeases(ctx), sleep(ctx, 200*time.Millisecond)); err != nil {
			return err
		}
		if err := y.notificationDB.QueryRow(ctx, settledSQL, ids).Scan(&settled); err != nil {
			return err
		}
	}
	return nil
}

// awaitMended wants all that is published by now to have its effect soon.
func (y *system) awaitMended(ctx context.Context) error {
	ids, err := y.published(ctx)
	if err != nil {
		return err
	}
	return y.awaitEffects(ctx, ids, mendTime, "P9", "after the mend")
}
