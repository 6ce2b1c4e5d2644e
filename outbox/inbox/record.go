package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrInvalid means that a message's id, the consumer's name or a setting cannot work. To try again
	// does not help.
	ErrInvalid = errors.New("invalid")
	// ErrNoSchema means that the table is missing: run [Migrate].
	ErrNoSchema = errors.New("no table processed_messages: run inbox.Migrate")
)

// recordSQL inserts the ids that are new. They are one JSON text, which every driver can send.
//
//   - ORDER BY: otherwise two transactions that record the same ids would deadlock.
//   - durable: the commit waits for the disk, because the message is acknowledged after it. Other
//     values than off are the user's choice.
//   - DO UPDATE … WHERE false only locks a known row. With DO NOTHING, a transaction of known
//     messages would write nothing, so its COMMIT would not wait for a synchronous standby. But the
//     row may not be there yet, and be lost with the primary after the acknowledgement.
const recordSQL = `
INSERT INTO processed_messages AS known (consumer, message_id)
SELECT DISTINCT cast($1 AS text), id COLLATE "C" FROM json_array_elements_text(cast(cast($2 AS text) AS json)) id, (
  SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END) durable
ORDER BY 2
ON CONFLICT (consumer, message_id) DO UPDATE SET processed_at = known.processed_at WHERE false`

// record returns the ids that are new: this transaction has inserted them, and when it began.
func record(ctx context.Context, tx pgx.Tx, consumer string, ids []string) (isNew map[string]bool, now time.Time, err error) {
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return nil, now, err
		}
	}
	rows, _ := tx.Query(ctx, recordSQL+" RETURNING message_id, processed_at", consumer, list(ids)) // ForEachRow returns its error
	var id string
	isNew = map[string]bool{}
	_, err = pgx.ForEachRow(rows, []any{&id, &now}, func() error {
		isNew[id] = true
		return nil
	})
	return isNew, now, explain(err)
}

// Tx is a transaction: a pgx.Tx, or what outbox.FromSQL returns for database/sql and gorm. A pool
// is none: it has no Commit.
type Tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Commit(ctx context.Context) error
}

// Record records one message in your transaction. If first is true, write the effect in the same
// transaction. If not, it was written before. In both cases, acknowledge the message after the
// commit. Record several messages of one transaction in the order of their ids, or two deadlock.
func Record(ctx context.Context, tx Tx, consumer, id string) (first bool, err error) {
	err = cmp.Or(check("consumer's name", consumer), checkID(id))
	if err == nil {
		var tag pgconn.CommandTag
		tag, err = tx.Exec(ctx, recordSQL, consumer, list([]string{id}))
		first = tag.RowsAffected() == 1
	}
	if err != nil {
		return false, fmt.Errorf("inbox %s: %w", consumer, explain(err))
	}
	return first, nil
}

func list(ids []string) string {
	text, _ := json.Marshal(ids) // no text makes it fail
	return string(text)
}

// check refuses a text that the table cannot hold.
func check(what, s string) error {
	if s == "" || len(s) > 255 || !utf8.ValidString(s) || strings.Contains(s, "\x00") {
		return fmt.Errorf("%w %s %.300q: it must be UTF-8 of 1 to 255 bytes without NUL", ErrInvalid, what, s)
	}
	return nil
}

func checkID(id string) error {
	if err := check("message id", id); err != nil {
		return permanentError{err, "malformed"}
	}
	return nil
}

// permanentError is an error that a consumer of package rabbitmq makes a dead letter of at once.
type permanentError struct {
	error
	code string
}

func (e permanentError) Unwrap() error { return e.error }

// DeadLetterCode says that to try again does not help.
func (e permanentError) DeadLetterCode() string { return e.code }

// explain adds ErrNoSchema to the error of a statement of this package.
func explain(err error) error {
	const undefinedTable = "42P01"
	if p, ok := errors.AsType[*pgconn.PgError](err); ok && p.Code == undefinedTable {
		return fmt.Errorf("%w: %w", ErrNoSchema, err)
	}
	return err
}
