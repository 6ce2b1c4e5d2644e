package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrInvalid means that a message's id or the consumer's name is empty, is longer than 255 bytes,
	// is not UTF-8 or has a NUL, or that another setting cannot work. To try again does not help.
	ErrInvalid = errors.New("invalid")
	// ErrNoSchema means that the table is missing: run [Migrate].
	ErrNoSchema = errors.New("no table inbox_messages: run inbox.Migrate")
)

// recordSQL inserts the ids that are new.
//
//   - The ids are one JSON text, which every mode of pgx can send.
//   - ORDER BY: all transactions insert in the same order. Otherwise two that record the same ids
//     would deadlock.
//   - durable: the commit waits for the disk, if it would not (off). Afterwards the message is
//     acknowledged, and a crash of PostgreSQL must not forget it. It is here for Record.
//   - ON CONFLICT waits for another transaction that is recording the same id. If that one commits,
//     nothing is inserted.
//   - DO UPDATE … WHERE false changes nothing and locks the row. With DO NOTHING, a transaction of
//     nothing but known messages would write nothing, so its COMMIT would wait for no synchronous
//     standby. But the row may not be on the standby yet: if the client of the COMMIT that waits
//     goes away, PostgreSQL shows the row. The messages would be acknowledged, and lost with the
//     primary.
const recordSQL = `
INSERT INTO inbox_messages AS known (consumer, message_id)
SELECT cast($1 AS text), id FROM json_array_elements_text(cast(cast($2 AS text) AS json)) id, (
  SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END) durable
ORDER BY id COLLATE "C"
ON CONFLICT (consumer, message_id) DO UPDATE SET processed_at = known.processed_at WHERE false`

// record returns the ids that this transaction has inserted.
func record(ctx context.Context, tx pgx.Tx, consumer string, ids []string) (map[string]struct{}, error) {
	inserted := map[string]struct{}{}
	rows, _ := tx.Query(ctx, recordSQL+" RETURNING message_id", consumer, list(ids)) // ForEachRow returns its error
	var id string
	_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
		inserted[id] = struct{}{}
		return nil
	})
	return inserted, explain(err)
}

// Tx is a transaction. pgx.Tx satisfies it, and so does what outbox.FromSQL returns for *sql.Tx and
// for gorm. A pool does not: it has no Commit.
type Tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Commit(ctx context.Context) error
}

// Record records one message in your transaction, for database/sql, gorm and any broker. If first
// is true, write the effect in the same transaction. If it is false, the effect was written before:
// write nothing. In both cases, acknowledge the message after the commit. If you record several
// messages in one transaction, do it in the order of their ids, or two transactions can deadlock.
func Record(ctx context.Context, tx Tx, consumer, id string) (first bool, err error) {
	if err := check(consumer, id); err != nil {
		return false, fmt.Errorf("inbox %s: %w", consumer, err)
	}
	tag, err := tx.Exec(ctx, recordSQL, consumer, list([]string{id}))
	if err != nil {
		return false, fmt.Errorf("inbox %s: %w", consumer, explain(err))
	}
	return tag.RowsAffected() == 1, nil
}

// list returns the ids as JSON, each once: a statement cannot lock a row that it has inserted.
func list(ids []string) string {
	text, _ := json.Marshal(slices.Compact(slices.Sorted(slices.Values(ids)))) // no text makes it fail
	return string(text)
}

// check returns an error for a text that the table cannot hold.
func check(consumer string, ids ...string) error {
	if err := checkText("consumer's name", consumer); err != nil {
		return err
	}
	for _, id := range ids {
		if err := checkText("message id", id); err != nil {
			return err
		}
	}
	return nil
}

func checkText(what, s string) error {
	if s == "" || len(s) > 255 || !utf8.ValidString(s) || strings.Contains(s, "\x00") {
		return fmt.Errorf("%w %s %.300q: it must be UTF-8 of 1 to 255 bytes without NUL", ErrInvalid, what, s)
	}
	return nil
}

// explain adds ErrNoSchema to the error of a statement of this package.
func explain(err error) error {
	const undefinedTable = "42P01"
	if p, ok := errors.AsType[*pgconn.PgError](err); ok && p.Code == undefinedTable {
		return fmt.Errorf("%w: %w", ErrNoSchema, err)
	}
	return err
}
