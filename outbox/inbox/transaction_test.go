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
// are in it. Whatever it tries, what is recorded has had its effect, and nothing else has.
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
	const ended = "the handler has ended the transaction of the inbox"
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
		"COMMIT after SET CONSTRAINTS": {ignored(text("SET CONSTRAINTS ALL IMMEDIATE; COMMIT; BEGIN")), ended},
		"COMMIT AND CHAIN, ignored":    {ignored(text("COMMIT AND CHAIN")), ended},
		"COMMIT, ignored, and BEGIN":   {ignored(text("COMMIT; BEGIN")), ended},
		"PREPARE TRANSACTION, ignored": {ignored(text("PREPARE TRANSACTION 'x'")), ended},
		"ROLLBACK":                     {text("ROLLBACK"), ended},
		"ROLLBACK AND CHAIN":           {text("ROLLBACK AND CHAIN"), ended},
		"ROLLBACK and BEGIN":           {text("ROLLBACK; BEGIN"), ended},
		"COMMIT in a batch, ignored":   {ignored(inBatch("COMMIT")), ended},
		"ROLLBACK in a batch":          {inBatch("ROLLBACK"), ended},
		"COMMIT of the connection":     {ignored(func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Conn().Exec(ctx, "COMMIT"); return err }), ended},
		"a transaction of it":          {ignored(func(ctx context.Context, tx pgx.Tx) error { return pgx.BeginFunc(ctx, tx.Conn(), none) }), ended},
		"SET CONSTRAINTS":              {text("SET CONSTRAINTS ALL IMMEDIATE"), ""},
		"a savepoint":                  {func(ctx context.Context, tx pgx.Tx) error { return pgx.BeginFunc(ctx, tx, none) }, ""},
		"a savepoint that rolls back":  {ignored(func(ctx context.Context, tx pgx.Tx) error { return pgx.BeginFunc(ctx, tx, failed) }), ""},
		"a batch":                      {inBatch("SELECT 1"), ""},
		"CopyFrom":                     {copied, ""},
		"LargeObjects": {func(ctx context.Context, tx pgx.Tx) error {
			o := tx.LargeObjects()
			_, err := o.Create(ctx, 0)
			return err
		}, ""},
	} {
		for _, size := range []int{1, 64} {
			for _, at := range []int{0, size / 2, size - 1} {
				batch := newMessages(size)
				in := inbox.Once(f.pool, "a", func(ctx context.Context, tx pgx.Tx, m message) error {
					if err := effect(ctx, tx, m); err != nil || m != batch[at] {
						return err
					}
					return test.try(ctx, tx)
				})
				err := in.Handle(t.Context(), batch)
				if (err == nil) != (test.why == "") || err != nil && !strings.Contains(err.Error(), test.why) {
					t.Errorf("%s, message %d of %d: %v, want %q", name, at, size, err, test.why)
				}
				ids, effects := f.ids(), f.effects()
				if slices.Sort(effects); !slices.Equal(effects, ids) || (err == nil) != slices.Contains(ids, batch[at]) {
					t.Errorf("%s, message %d of %d: %d ids, %d effects", name, at, size, len(ids), len(effects))
				}
				f.exec("TRUNCATE processed_messages, effects")
			}
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
