package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// recoveryTime is how long the services may take after a fault. A domain may be paused longer.
const (
	recoveryTime     = 15 * time.Second
	mailRecoveryTime = 30*time.Second + 5*time.Second // the longest pause of a domain, and the work
)

// published returns the ids of the published events, without those of some customers.
func (sys *system) published(ctx context.Context, without ...string) ([]string, error) {
	rows, _ := sys.orderDB.Query(ctx, `
		SELECT id::text FROM outbox_status
		WHERE status = 'published' AND payload::json->>'customer_email' <> ALL ($1)`, without)
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// settledSQL counts the messages that are recorded, and whose e-mail, if they have one, does not
// wait.
const settledSQL = `
SELECT count(*) FROM processed_messages
WHERE message_id = ANY ($1::text[]) AND message_id NOT IN (SELECT id::text FROM outbox_queue WHERE failed_at IS NULL)`

// requireEffects requires that these messages have their effect within a time. If they have not,
// the promise is broken.
func (sys *system) requireEffects(ctx context.Context, ids []string, within time.Duration, promise, when string) error {
	settled := 0
	for deadline := time.Now().Add(within); settled < len(ids); {
		if time.Now().After(deadline) {
			sys.reportViolation(promise, "%d of %d messages have no effect %s %s", len(ids)-settled, len(ids), within, when)
			return nil
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		if err := sys.notificationDB.QueryRow(ctx, settledSQL, ids).Scan(&settled); err != nil {
			return err
		}
	}
	return nil
}

// requireAllEffects requires that all published events have their effect within a time.
func (sys *system) requireAllEffects(ctx context.Context, within time.Duration) error {
	ids, err := sys.published(ctx)
	if err != nil {
		return err
	}
	return sys.requireEffects(ctx, ids, within, "P9", "after the fault")
}
