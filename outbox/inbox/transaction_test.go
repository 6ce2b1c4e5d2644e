package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/inbox"
)

// TestP5AHandlerCannotEndTheTransaction of its inbox, by a method or by text: the ids of the batch
// are in it. Ids equal effects, unless the handler writes more after it has sent ROLLBACK as text.
func TestP5AHandlerCannotEndTheTransaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec("CREATE TABLE copied (message text)")
	text := func(sql string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, sql); return err }
	}
	ignored := func(try func(context.Context, pgx.Tx) error) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error { _ = try(ctx, tx); return nil }
	}
	const ended = "must not end the transaction of the inbox"
	commit := func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }
	for name, test := range map[string]struct {
		try func(context.Context, pgx.Tx) error
		why string // "": it is handled
	}{
		"Commit":                       {commit, ended},
		"Commit, ignored":              {ignored(commit), ended},
		"Rollback":                     {func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }, ""},
		"COMMIT":                       {text("COMMIT"), "the inbox ends this transaction"},
		"COMMIT, ignored":              {ignored(text("COMMIT")), ended},
		"COMMIT, ignored, then BEGIN":  {func(ctx context.Context, tx pgx.Tx) error { _ = text("COMMIT")(ctx, tx); return text("BEGIN")(ctx, tx) }, ended},
		"PREPARE TRANSACTION, ignored": {ignored(text("PREPARE TRANSACTION 'x'")), ended},
		"ROLLBACK":                     {text("ROLLBACK"), ended},
		"ROLLBACK AND CHAIN":           {text("ROLLBACK AND CHAIN"), ended},
		"ROLLBACK and BEGIN":           {text("ROLLBACK; BEGIN"), ended},
		"COMMIT in a batch, ignored":   {ignored(inBatch("COMMIT")), ended},
		"ROLLBACK in a batch":          {inBatch("ROLLBACK"), ended},
		"a transaction of the connection, ignored": {ignored(func(ctx context.Context, tx pgx.Tx) error { return pgx.BeginFunc(ctx, tx.Conn(), none) }), ended},
		"a savepoint":                          {func(ctx context.Context, tx pgx.Tx) error { return pgx.BeginFunc(ctx, tx, none) }, ""},
		"a savepoint that rolls back, ignored": {ignored(func(ctx context.Context, tx pgx.Tx) error { return pgx.BeginFunc(ctx, tx, failed) }), ""},
		"a batch":                              {inBatch("SELECT 1"), ""},
		"CopyFrom":                             {copied, ""},
		"LargeObjects": {func(ctx context.Context, tx pgx.Tx) error {
			o := tx.LargeObjects()
			_, err := o.Create(ctx, 0)
			return err
		}, ""},
	} {
		for _, c := range []struct{ size, at int }{{1, 0}, {64, 0}, {64, 32}, {64, 63}} {
			batch := newMessages(c.size)
			in := inbox.Once(f.pool, "a", func(ctx context.Context, tx pgx.Tx, m message) error {
				if err := effect(ctx, tx, m); err != nil || m != batch[c.at] {
					return err
				}
				return test.try(ctx, tx)
			})
			err := in.Handle(t.Context(), batch)
			if (err == nil) != (test.why == "") || err != nil && !strings.Contains(err.Error(), test.why) {
				t.Errorf("%s, message %d of %d: %v, want %q", name, c.at, c.size, err, test.why)
			}
			ids, effects := f.ids(), f.effects()
			if slices.Sort(effects); !slices.Equal(effects, ids) || (err == nil) != slices.Contains(ids, batch[c.at]) {
				t.Errorf("%s, message %d of %d: %d ids, %d effects", name, c.at, c.size, len(ids), len(effects))
			}
			f.exec("TRUNCATE processed_messages, effects")
		}
	}
}

func none(pgx.Tx) error { return nil }

func failed(tx pgx.Tx) error {
	_, err := tx.Exec(context.Background(), "SELECT 1/0")
	return err
}

func inBatch(sql string) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue("SELECT 1")
		b.Queue(sql)
		return tx.SendBatch(ctx, b).Close()
	}
}

func copied(ctx context.Context, tx pgx.Tx) error {
	n, err := tx.CopyFrom(ctx, pgx.Identifier{"copied"}, []string{"message"}, pgx.CopyFromRows([][]any{{"1"}}))
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows", n)
	}
	return err
}

// ids are the recorded messages, sorted.
func (f fixture) ids() []message {
	f.Helper()
	rows, _ := f.pool.Query(f.Context(), "SELECT message_id FROM processed_messages")
	ids, err := pgx.CollectRows(rows, pgx.RowTo[message])
	must(f, err)
	slices.Sort(ids)
	return ids
}
