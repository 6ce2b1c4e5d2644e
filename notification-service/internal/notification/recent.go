package notification

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// Recent counts the notifications of a time, by state.
type Recent struct {
	Waiting, Sent, Rejected, Superseded int64
	OldestWaiting                       float64 // seconds; 0 if none waits
	SentLately                          int64   // of the last [Lately]
}

// Lately is the time for which Recent and the inbox count what is needed for a rate.
const Lately = 10 * time.Second

// recentSQL reads the newest rows by the index notifications_age, and at most @limit of them.
const recentSQL = `
SELECT count(*) FILTER (WHERE status IN ('pending', 'sending')) AS waiting,
       count(*) FILTER (WHERE status = 'sent') AS sent,
       count(*) FILTER (WHERE status = 'rejected') AS rejected,
       count(*) FILTER (WHERE status = 'superseded') AS superseded,
       coalesce(extract(epoch FROM now() - min(created_at) FILTER (WHERE status IN ('pending', 'sending'))), 0)::float8 AS oldest_waiting,
       count(*) FILTER (WHERE sent_at > now() - @lately * interval '1 second') AS sent_lately
FROM (SELECT status, created_at, sent_at FROM notifications
      WHERE created_at > now() - @seconds * interval '1 second'
      ORDER BY created_at DESC LIMIT @limit) newest`

// CountRecent counts the notifications of the last time, at most the newest limit.
func CountRecent(ctx context.Context, db *postgres.DB, age time.Duration, limit int) (r Recent, err error) {
	err = db.InSnapshot(ctx, func(tx pgx.Tx) error {
		args := postgres.Args{"seconds": age.Seconds(), "lately": Lately.Seconds(), "limit": limit}
		r, err = postgres.ReadOne(ctx, tx, recentSQL, args, pgx.RowToStructByName[Recent])
		return err
	})
	if err != nil {
		return Recent{}, fmt.Errorf("counting recent notifications: %w", err)
	}
	return r, nil
}
