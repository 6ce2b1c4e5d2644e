package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/handling"
)

// Message is a message of any broker: its id is the same at each delivery. It may have the method
// PublishedAt() time.Time, see [Retention]. 1970-01-01 00:00 UTC, and what is before, is no time.
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
	retention, lockTimeout time.Duration
	logger                 *slog.Logger
}

// Retention sets how long an id is kept. The default is 30 days. A message that was published before
// that is too old: nobody knows whether it had its effect. An event of package outbox has the time of
// its Append. So the retention must be longer than its Delay, and all that relay, retries and replays
// may take. A message without a time is never too old. One whose time is more than a day ahead is
// malformed: its age is not known.
func Retention(d time.Duration) Option { return func(o *options) { o.retention = d } }

// LockTimeout sets how long a statement waits for a lock. The default is 1 s. If the transaction of
// one message meets a lock for longer, a deadlock or a serialization failure, it is tried again after
// a short pause: five times in all, and no more when twice this time is over.
func LockTimeout(d time.Duration) Option { return func(o *options) { o.lockTimeout = d } }

// Logger sets where the inbox logs that it could not delete old ids. The default is slog.Default().
func Logger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// Once returns an inbox that calls handle for each new message of a batch. handle must write the
// effect with tx. If it returns an error, nothing of the batch is written. The ctx of handle
// belongs to the batch: for the trace of a message of package rabbitmq, use m.Context(ctx).
//
// Only the inbox ends the transaction, because the messages' ids are in it. tx.Commit returns an
// error, and fails the batch even if the handler ignores it. tx.Rollback does nothing: what handle
// has written is committed if it returns nil. To write nothing, return an error. Savepoints
// (tx.Begin) are allowed. PostgreSQL refuses COMMIT as text, unless CLOSE ALL comes before it.
// After COMMIT or ROLLBACK as text the batch fails, but what handle then writes is committed at
// once, and again when the message comes again.
//
// consumer is a name: all replicas of a consumer have the same one, and other consumers that share
// the table processed_messages have others. An inbox uses one connection for a batch, and one more
// once a minute.
func Once[M Message](
	pool *pgxpool.Pool, consumer string, handle func(ctx context.Context, tx pgx.Tx, m M) error, options ...Option,
) *Inbox[M] {
	return OnceBatch(pool, consumer, func(ctx context.Context, tx pgx.Tx, messages []M) error {
		for _, m := range messages {
			err := handle(ctx, tx, m)
			if err == nil {
				err = tx.(*handlerTx).ended() // after ROLLBACK, the next message's effect would be committed at once
			}
			if err != nil {
				return fmt.Errorf("message %q: %w", m.MessageID(), err)
			}
		}
		return nil
	}, options...)
}

// OnceBatch is [Once] with one call for all new messages of a batch, in the order in which they
// came. If handle locks rows, it must do so in the same order in every batch, or two deadlock.
func OnceBatch[M Message](
	pool *pgxpool.Pool, consumer string, handle func(ctx context.Context, tx pgx.Tx, messages []M) error, opts ...Option,
) *Inbox[M] {
	i := &Inbox[M]{pool, consumer, handle, options{30 * 24 * time.Hour, time.Second, slog.Default()}}
	for _, set := range opts {
		set(&i.options)
	}
	return i
}

// Handle records a batch and calls the handler for its new messages, in one transaction. If an id
// occurs twice, the first message is handled. If Handle returns nil, all is committed, and a crash of
// PostgreSQL does not lose it: acknowledge the messages. After an error they must come again: you
// cannot know whether the commit succeeded. If the error has the method DeadLetterCode() string, a
// message can never be handled: its id cannot work, it is too old, or its time is in the future.
//
// A message that is alone is handled again if other transactions were in its way, see [LockTimeout].
func (i *Inbox[M]) Handle(ctx context.Context, batch []M) error {
	if len(batch) == 0 {
		return nil
	}
	handling.Found(ctx, i)
	tries := uint(1)
	if len(batch) == 1 {
		tries = 5
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.Multiplier = 20*time.Millisecond, 3
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := i.handleOnce(ctx, batch)
		if err != nil && !isContention(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(2*i.lockTimeout))
	return err
}

// isContention is true if the transactions of others were the cause.
func isContention(err error) bool {
	p, ok := errors.AsType[*pgconn.PgError](err)
	const lockNotAvailable, deadlock, serializationFailure = "55P03", "40P01", "40001"
	return ok && (p.Code == lockNotAvailable || p.Code == deadlock || p.Code == serializationFailure)
}

func (i *Inbox[M]) handleOnce(ctx context.Context, batch []M) error {
	ids := make([]string, len(batch))
	for n, m := range batch {
		ids[n] = m.MessageID()
	}
	return i.inTx(ctx, guardSQL, func(tx pgx.Tx) error {
		isNew, now, err := record(ctx, tx, i.consumer, ids)
		if err != nil {
			return err
		}
		var fresh []M
		for n, m := range batch {
			if isNew[ids[n]] {
				if err := i.checkAge(m, now); err != nil {
					return err
				}
				fresh = append(fresh, m)
				isNew[ids[n]] = false
			}
		}
		h := &handlerTx{Tx: tx}
		if len(fresh) > 0 {
			if err := i.handle(ctx, h, fresh); err != nil {
				return err
			}
		}
		return h.release(ctx)
	})
}

// maxAhead is more than the clocks of machines differ. A time further ahead may be in another unit.
const maxAhead = 24 * time.Hour

// checkAge refuses a message that may have had its effect so long ago that its id is deleted.
func (i *Inbox[M]) checkAge(m M, now time.Time) error {
	dated, ok := any(m).(interface{ PublishedAt() time.Time })
	if !ok {
		return nil
	}
	at := dated.PublishedAt().UTC()
	switch {
	case at.Unix() <= 0: // unknown
	case at.Sub(now) > maxAhead:
		return permanentError{fmt.Errorf("message %q was published at %s, and it is %s now: its age is not known",
			m.MessageID(), at.Format(time.RFC3339), now.UTC().Format(time.RFC3339)), "malformed"}
	case now.Sub(at) >= i.retention:
		return permanentError{fmt.Errorf("message %q was published at %s, and its id is kept for %s: nobody knows whether it had its effect",
			m.MessageID(), at.Format(time.RFC3339), i.retention), "too-old"}
	}
	return nil
}

var errRollBack = errors.New("the row of Ready is rolled back")

// Ready returns the database's time if the database accepts a row of this inbox. Call it after
// Handle has failed: if Ready fails too, the message is not the cause.
func (i *Inbox[M]) Ready(ctx context.Context) (now time.Time, err error) {
	err = i.inTx(ctx, "", func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `INSERT INTO processed_messages (consumer, message_id)
			VALUES (cast($1 AS text), gen_random_uuid()::text) RETURNING clock_timestamp()`, i.consumer).Scan(&now)
		return cmp.Or(explain(err), errRollBack)
	})
	if errors.Is(err, errRollBack) {
		return now, nil
	}
	return time.Time{}, err
}
