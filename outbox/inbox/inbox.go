package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Message is what an inbox needs of a message: an id that is the same at each delivery.
type Message interface{ MessageID() string }

// Inbox handles the messages of one consumer. Its methods may be called at the same time.
type Inbox[M Message] struct {
	pool     *pgxpool.Pool
	consumer string
	handle   func(ctx context.Context, tx pgx.Tx, messages []M) error
	options
}

// Option changes a setting of an inbox.
type Option func(*options)

type options struct {
	retention time.Duration
	logger    *slog.Logger
}

// Retention sets how long an id is kept. The default is 30 days.
func Retention(d time.Duration) Option { return func(o *options) { o.retention = d } }

// Logger sets where the inbox logs that it could not delete old ids. The default is slog.Default().
func Logger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// Once returns an inbox that calls handle for each new message of a batch. handle must write the
// effect with tx. If it returns an error, nothing of the batch is written. The ctx of handle
// belongs to the batch: for the trace of a message of package rabbitmq, use m.Context(ctx).
//
// consumer is a name. Each consumer of a database has its own name, and all replicas of a consumer
// have the same one.
func Once[M Message](
	pool *pgxpool.Pool, consumer string, handle func(ctx context.Context, tx pgx.Tx, m M) error, options ...Option,
) *Inbox[M] {
	return OnceBatch(pool, consumer, func(ctx context.Context, tx pgx.Tx, messages []M) error {
		for _, m := range messages {
			if err := handle(ctx, tx, m); err != nil {
				return fmt.Errorf("message %q: %w", m.MessageID(), err)
			}
		}
		return nil
	}, options...)
}

// OnceBatch is [Once] with one call for all new messages of a batch, in the order in which they
// came. If handle locks rows, every batch must lock them in the same order, or two batches
// deadlock.
func OnceBatch[M Message](
	pool *pgxpool.Pool, consumer string, handle func(ctx context.Context, tx pgx.Tx, messages []M) error, opts ...Option,
) *Inbox[M] {
	i := &Inbox[M]{pool, consumer, handle, options{30 * 24 * time.Hour, slog.Default()}}
	for _, set := range opts {
		set(&i.options)
	}
	return i
}

// beginSQL begins every transaction of an inbox.
//
//   - READ COMMITTED, READ WRITE: whatever the role's defaults are. With SERIALIZABLE, batches that
//     are handled at the same time would fail.
//   - lock_timeout: a batch gives up when another one holds its rows, and is tried again. Otherwise
//     a transaction that hangs would stop all consumers.
//   - datestyle: two modes of pgx read a time as text, and know this style only.
//   - synchronous_commit: after the commit the messages are acknowledged, and only this database
//     has them. The values that wait for a disk are the user's choice; off is none of them.
const beginSQL = `
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL lock_timeout = '1s';
SET LOCAL datestyle = 'ISO';
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`

// Handle records a batch and calls the handler for its new messages, in one transaction. If it
// returns nil, the transaction is committed, also on a synchronous standby if there is one:
// acknowledge the messages. If it returns an error, do not: they must come again, because Handle
// may not know whether the commit succeeded. If an id occurs twice in the batch, only the first
// message is handled. If the handler panics, Handle rolls back and panics too.
func (i *Inbox[M]) Handle(ctx context.Context, batch []M) error {
	if len(batch) == 0 {
		return nil
	}
	ids := make([]string, len(batch))
	for n, m := range batch {
		ids[n] = m.MessageID()
	}
	return i.inTx(ctx, beginSQL, func(tx pgx.Tx) error {
		inserted, err := record(ctx, tx, i.consumer, ids)
		if err != nil {
			return err
		}
		fresh := slices.DeleteFunc(slices.Clone(batch), func(m M) bool {
			_, first := inserted[m.MessageID()]
			delete(inserted, m.MessageID())
			return !first
		})
		if len(fresh) == 0 {
			return nil
		}
		return i.handle(ctx, tx, fresh)
	}, ids...)
}

// readySQL inserts a row that no message has.
const readySQL = `
INSERT INTO inbox_messages (consumer, message_id) VALUES (cast($1 AS text), gen_random_uuid()::text)
RETURNING clock_timestamp()`

// Ready returns the database's time if the database accepts a row of this inbox. The row is rolled
// back. Call it after Handle has failed: if Ready fails too, the message is not the cause.
func (i *Inbox[M]) Ready(ctx context.Context) (now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = i.inTx(ctx, beginSQL, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, readySQL, i.consumer).Scan(&now); err != nil {
			return explain(err)
		}
		return errReady
	})
	if errors.Is(err, errReady) {
		return now, nil
	}
	return time.Time{}, err
}

// errReady rolls back.
var errReady = errors.New("ready")

// timeout limits the transactions that have no messages.
const timeout = 15 * time.Second

// inTx checks the texts that are about to be sent, and runs fn in a transaction.
func (i *Inbox[M]) inTx(ctx context.Context, begin string, fn func(pgx.Tx) error, ids ...string) error {
	err := check(i.consumer, ids...)
	if err == nil {
		err = pgx.BeginTxFunc(ctx, i.pool, pgx.TxOptions{BeginQuery: begin}, fn)
	}
	if err != nil {
		return fmt.Errorf("inbox %s: %w", i.consumer, err)
	}
	return nil
}
