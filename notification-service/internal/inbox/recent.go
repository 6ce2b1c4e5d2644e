package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// Recent counts the messages that had their effect in the last time.
type Recent struct{ Processed, Lately int64 }

// recentSQL reads the newest rows by the index processed_messages_age, and at most @limit of them.
const recentSQL = `
SELECT count(*) AS processed,
       count(*) FILTER (WHERE processed_at > now() - @lately * interval '1 second') AS lately
FROM (SELECT processed_at FROM processed_messages
      WHERE processed_at > now() - @seconds * interval '1 second'
      ORDER BY processed_at DESC LIMIT @limit) newest`

// CountRecent counts the messages of the last age, and of the shorter last lately; at most the
// newest limit.
func CountRecent(ctx context.Context, db *postgres.DB, age, lately time.Duration, limit int) (r Recent, err error) {
	err = db.InSnapshot(ctx, func(tx pgx.Tx) error {
		args := postgres.Args{"seconds": age.Seconds(), "lately": lately.Seconds(), "limit": limit}
		r, err = postgres.ReadOne(ctx, tx, recentSQL, args, pgx.RowToStructByName[Recent])
		return err
	})
	if err != nil {
		return Recent{}, fmt.Errorf("counting recent messages: %w", err)
	}
	return r, nil
}
