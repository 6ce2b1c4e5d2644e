package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// Message has the properties of a message that the inbox needs.
type Message struct {
	ID        uuid.UUID
	CreatedAt time.Time // by the producer's database; the zero time is outside the window
	Forced    bool      // an operator says that the age does not matter
}

// Result is what the inbox knows about a message.
type Result int

// The results. The zero Result is invalid.
const (
	First         Result = iota + 1 // write its effect in the same transaction
	Duplicate                       // its effect was committed before
	OutsideWindow                   // too old: it may be a duplicate
)

// Inbox is the inbox of one service.
type Inbox struct {
	db     *postgres.DB
	window time.Duration
}

// New returns the inbox in db. It records no message that is older than window.
func New(db *postgres.DB, window time.Duration) *Inbox {
	return &Inbox{db: db, window: window}
}

// recordSQL records a batch of messages:
//
//   - "accepted" are the messages inside the window, and those that an operator forces.
//   - ON CONFLICT DO NOTHING waits for another transaction that is recording the same id. It
//     inserts nothing if that one commits. So inside the window, an id that is not inserted was
//     recorded before.
//   - ORDER BY makes all transactions insert in the same order. Otherwise two that record the
//     same ids would deadlock.
//   - processed_at is never before the message's creation. If the producer's clock is ahead, the
//     row lives longer. So a row is never pruned while its message may still come.
//   - EXISTS is for messages outside the window: a row that is still there proves a duplicate.
const recordSQL = `
WITH arrived AS MATERIALIZED (
  SELECT id, place, created, forced OR created > now() - @window * interval '1 second' AS accepted
  FROM unnest(cast(@ids AS uuid[]), cast(@created AS timestamptz[]), cast(@forced AS bool[]))
       WITH ORDINALITY AS a (id, created, forced, place)
), inserted AS (
  INSERT INTO processed_messages (message_id, processed_at)
  SELECT id, greatest(now(), created) FROM arrived WHERE accepted ORDER BY id
  ON CONFLICT (message_id) DO NOTHING
  RETURNING message_id
)
SELECT CASE
  WHEN i.message_id IS NOT NULL THEN cast(@first AS int)
  WHEN a.accepted OR EXISTS (SELECT FROM processed_messages p WHERE p.message_id = a.id) THEN @duplicate
  ELSE @outside
END
FROM arrived a LEFT JOIN inserted i ON i.message_id = a.id
ORDER BY a.place`

// Record records in tx that these messages are being processed. It returns a result for each, in
// their order. An id may occur only once in a batch.
func (i *Inbox) Record(ctx context.Context, tx pgx.Tx, messages []Message) ([]Result, error) {
	ids, created, forced := make([][16]byte, len(messages)), make([]time.Time, len(messages)), make([]bool, len(messages))
	for n, m := range messages {
		ids[n], created[n], forced[n] = m.ID, m.CreatedAt, m.Forced
	}
	results, err := postgres.Read(ctx, tx, recordSQL, postgres.Args{
		"ids": ids, "created": created, "forced": forced, "window": i.window.Seconds(),
		"first": First, "duplicate": Duplicate, "outside": OutsideWindow,
	}, pgx.RowTo[Result])
	if err != nil {
		return nil, fmt.Errorf("recording %d messages in the inbox: %w", len(messages), err)
	}
	return results, nil
}
