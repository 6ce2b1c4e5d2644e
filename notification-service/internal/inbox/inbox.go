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

// recordSQL waits for another transaction that is recording the same id, and inserts
// nothing when that one commits. Inside the window, not inserted means noted. The
// last look at the table is for those outside: a note that is still there is one.
//
// A note is never dated before its message: a producer's clock that is ahead makes
// it live longer, and not go while its message may still come.
const recordSQL = `
WITH age AS (
  SELECT @forced OR cast(@created AS timestamptz) > now() - @window * interval '1 second' AS fits
), noted AS (
  INSERT INTO processed_messages (message_id, processed_at)
  SELECT @id, greatest(now(), cast(@created AS timestamptz)) FROM age WHERE fits
  ON CONFLICT (message_id) DO NOTHING
  RETURNING message_id
)
SELECT CASE
  WHEN EXISTS (SELECT FROM noted) THEN cast(@first AS int)
  WHEN fits OR EXISTS (SELECT FROM processed_messages WHERE message_id = @id) THEN @repeat
  ELSE @outside
END FROM age`

// Record notes in tx that m is being processed, if this is the first time.
func (i *Inbox) Record(ctx context.Context, tx *postgres.Tx, m Message) (Verdict, error) {
	verdict, err := postgres.ReadOne(ctx, tx, recordSQL, postgres.Args{
		"id": m.ID, "created": m.CreatedAt, "forced": m.Forced, "window": i.window.Seconds(),
		"first": First, "repeat": Repeat, "outside": OutsideWindow,
	}, pgx.RowTo[Verdict])
	if err != nil {
		return 0, fmt.Errorf("recording message %s: %w", m.ID, err)
	}
	return verdict, nil
}
