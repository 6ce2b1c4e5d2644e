package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// Totals are the finished events.
type Totals struct {
	Appended  int64 // in all, also those that are pruned; rolled back ones count too
	Discarded int64 // that are still kept; at most the limit
}

// totalsSQL reads the sequence of the log: its last number is the number of events. So the cost does
// not grow with the log.
const totalsSQL = `
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('outbox_events', 'seq')::regclass), 0) AS appended,
       (SELECT count(*) FROM (SELECT FROM outbox_discarded LIMIT @limit) d) AS discarded`

// Totals counts the finished events. It counts at most limit discarded ones.
func (s *Store) Totals(ctx context.Context, limit int) (t Totals, err error) {
	err = s.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		t, err = postgres.ReadOne(ctx, tx, totalsSQL, postgres.Args{"limit": limit}, pgx.RowToStructByName[Totals])
		return err
	})
	if err != nil {
		return Totals{}, fmt.Errorf("counting finished events: %w", err)
	}
	return t, nil
}
