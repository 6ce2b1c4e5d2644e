package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// Message is what the inbox needs to know of one.
type Message struct {
	ID        uuid.UUID
	CreatedAt time.Time // by the producer's database; unknown is very long ago
	Forced    bool      // an operator says that its age does not matter
}

// Verdict is what the inbox says to a message.
type Verdict int

// The verdicts. The zero Verdict is none.
const (
	First         Verdict = iota + 1 // its effect belongs into the same transaction
	Repeat                           // its effect is committed
	OutsideWindow                    // too old to know
)

// Inbox is the notes of one service.
type Inbox struct {
	db     *postgres.DB
	window time.Duration
}

// New returns the inbox in db. Messages older than window are not let in.
func New(db *postgres.DB, window time.Duration) *Inbox {
	return &Inbox{db: db, window: window}
}

// recordSQL notes a batch of messages:
//
//   - ON CONFLICT DO NOTHING waits for another transaction that is recording the same id,
//     and inserts nothing when that one commits. Inside the window, not inserted means
//     noted;
//   - ORDER BY makes all transactions insert in one order. Two that record the same ids
//     would otherwise wait for each other for ever;
//   - a note is never dated before its message. A producer's clock that is ahead makes the
//     note live longer. It cannot go while its message may still come;
//   - the last look at the table is for messages outside the window: a note that is still
//     there proves a repeat.
const recordSQL = `
WITH arrived AS MATERIALIZED (
  SELECT id, place, created, forced OR created > now() - @window * interval '1 second' AS fits
  FROM unnest(cast(@ids AS uuid[]), cast(@created AS timestamptz[]), cast(@forced AS bool[]))
       WITH ORDINALITY AS a (id, created, forced, place)
), noted AS (
  INSERT INTO processed_messages (message_id, processed_at)
  SELECT id, greatest(now(), created) FROM arrived WHERE fits ORDER BY id
  ON CONFLICT (message_id) DO NOTHING
  RETURNING message_id
)
SELECT CASE
  WHEN n.message_id IS NOT NULL THEN cast(@first AS int)
  WHEN a.fits OR EXISTS (SELECT FROM processed_messages p WHERE p.message_id = a.id) THEN @repeat
  ELSE @outside
END
FROM arrived a LEFT JOIN noted n ON n.message_id = a.id
ORDER BY a.place`

// Record notes in tx that these messages are being processed, and returns for each, in
// their order, whether this is the first time. No id may be in a batch twice.
func (i *Inbox) Record(ctx context.Context, tx *postgres.Tx, messages []Message) ([]Verdict, error) {
	ids, created, forced := make([][16]byte, len(messages)), make([]time.Time, len(messages)), make([]bool, len(messages))
	for n, m := range messages {
		ids[n], created[n], forced[n] = m.ID, m.CreatedAt, m.Forced
	}
	verdicts, err := postgres.Read(ctx, tx, recordSQL, postgres.Args{
		"ids": ids, "created": created, "forced": forced, "window": i.window.Seconds(),
		"first": First, "repeat": Repeat, "outside": OutsideWindow,
	}, pgx.RowTo[Verdict])
	if err != nil {
		return nil, fmt.Errorf("recording %d messages in the inbox: %w", len(messages), err)
	}
	return verdicts, nil
}
