package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/quietlog"
	"example.com/transactional-outbox/outbox/internal/relay"
)

const (
	// minInterval is the shortest time between two notifications.
	minInterval = 5 * time.Millisecond
	// ownRelayDelay is how long the relay of this process has to receive the wake-up itself.
	ownRelayDelay = 20 * time.Millisecond
	// notifyPause bounds a notification, and is the pause before another try to notify or to listen.
	notifyPause = time.Second
	// listenCheck is how often a listening connection is checked. A dead connection looks like one
	// without notifications.
	listenCheck = 10 * time.Second
	// listenTimeout bounds the wait for a connection, and for the answer to a check.
	listenTimeout = 5 * time.Second
)

// Waker wakes the relays of other processes after a commit. It is for a process that appends events
// and has no relay: in a process with a relay, [Relay.Wake] is enough.
//
//	waker := outbox.NewWaker(pool)
//	go waker.Run(ctx)
//	// after each commit:
//	waker.Wake()
//
// It sends PostgreSQL's NOTIFY after the commit, and at most one every 5 ms, however many commits
// there are. The first commit after a quiet time does not wait. A NOTIFY inside the
// transaction would be slow: all transactions that notify share a lock, which they hold until their
// commit is on disk.
type Waker struct {
	Logger *slog.Logger // default: slog.Default(). Set it before Run

	notify    func(ctx context.Context) error
	committed chan struct{}
}

// NewWaker returns a waker that does nothing until Run.
func NewWaker(pool *pgxpool.Pool) *Waker {
	return &Waker{committed: make(chan struct{}, 1), notify: func(ctx context.Context) error {
		_, err := pool.Exec(ctx, notifySQL, pgx.QueryExecModeSimpleProtocol)
		return err
	}}
}

// notifySQL notifies on the channel of this schema's outbox. It is one statement, so it is its own
// transaction. Its commit writes no data, and need not wait for the disk.
const notifySQL = `SELECT set_config('synchronous_commit', 'off', true), pg_notify(` + channelSQL + `, '')`

// channelSQL is the channel of LISTEN and NOTIFY. It has the number of a table, so that each schema
// of a database has a channel of its own.
const channelSQL = `'outbox_' || 'outbox_queue'::regclass::oid::text`

// Wake is as [Relay.Wake], for the relays of other processes only.
func (w *Waker) Wake() {
	select {
	case w.committed <- struct{}{}:
	default: // one is pending already, and one is enough
	}
}

// Run sends notifications until ctx ends, and then one for the last commit. It returns nil.
func (w *Waker) Run(ctx context.Context) error { return w.run(ctx, nil) }

// run notifies the others only if the relay of this process, if it has one, is busy. If it always
// did, most relays would find nothing, and an empty claim costs the database as much as a batch.
func (w *Waker) run(ctx context.Context, busy func() bool) error {
	log := quietlog.New(cmp.Or(w.Logger, slog.Default()))
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-w.committed:
			// A relay that is asked to stop claims nothing more. So then the others are always notified.
			if busy == nil || !relay.Wait(ctx, ownRelayDelay) || busy() {
				w.send(ctx, log)
			}
		}
	}
	if len(w.committed) > 0 {
		w.send(ctx, log)
	}
	return nil
}

// send notifies, also if ctx has ended, because of the last commit. Then it pauses.
func (w *Waker) send(ctx context.Context, log *quietlog.Log) {
	try, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyPause)
	defer cancel()
	if err := w.notify(try); err != nil {
		log.Trouble(ctx, "cannot notify the relays of other processes: they find events by their poll", "error", err)
		w.Wake() // try again
		relay.Wait(ctx, notifyPause)
		return
	}
	relay.Wait(ctx, minInterval)
}

// listener calls heard at each notification of another process.
type listener struct {
	pool        *pgxpool.Pool
	log         *quietlog.Log
	heard       func()
	isListening atomic.Bool
}

// run listens until ctx ends. It logs each time that it begins to listen. When it cannot listen, it
// logs that only once until it listens again: the last line tells whether it listens now. It does
// not try again behind a pooler.
func (l *listener) run(ctx context.Context) error {
	for first := true; ; first = false {
		err := l.listenOnce(ctx)
		listened := l.isListening.Swap(false)
		if ctx.Err() != nil {
			return nil
		}
		if listened || first {
			l.log.WarnContext(ctx, "not listening: the relay finds events of other processes by its poll", "error", err)
		}
		if errors.Is(err, errPooler) {
			return nil
		}
		relay.Wait(ctx, notifyPause)
	}
}

// listenOnce listens on a connection that it takes out of the pool: a pool closes its connections
// at any time. It returns an error when ctx ends, or when the connection is lost or hears nothing.
func (l *listener) listenOnce(ctx context.Context) error {
	acquire, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	pooled, err := l.pool.Acquire(acquire)
	if err != nil {
		return fmt.Errorf("taking a connection to listen on: %w", err)
	}
	conn := pooled.Hijack()
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // does not wait for an answer
	for {
		// A second LISTEN changes nothing. Its answer shows that the connection works.
		if err := beginListening(ctx, conn); err != nil {
			return err
		}
		if !l.isListening.Swap(true) {
			l.log.InfoContext(ctx, "listening for events of other processes")
			l.heard() // events may have been committed before
		}
		if err := l.receive(ctx, conn); err != nil {
			return err
		}
	}
}

// receive reports each notification until it is time for a check.
func (l *listener) receive(ctx context.Context, conn *pgx.Conn) error {
	untilCheck, cancel := context.WithTimeout(ctx, listenCheck)
	defer cancel()
	for {
		if _, err := conn.WaitForNotification(untilCheck); err != nil {
			if untilCheck.Err() != nil && ctx.Err() == nil {
				return nil
			}
			return err
		}
		l.heard()
	}
}

// errPooler says that a pooler such as PgBouncer is in front of the database. In transaction mode,
// a client has a session for one transaction only. LISTEN succeeds, but we get no notifications.
// The client that has the session later gets them, and its driver would store them for ever.
var errPooler = errors.New("a pooler is between this process and the database, and LISTEN does not work through it")

// beginListening compares the process id from the start of the connection with that of the session
// that answers, because a pooler invents the first one. Then it listens.
func beginListening(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	var answers uint32
	var channel string
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid(), "+channelSQL, pgx.QueryExecModeSimpleProtocol).Scan(&answers, &channel)
	if err != nil {
		return fmt.Errorf("checking the connection that listens: %w", err)
	}
	if answers != conn.PgConn().PID() {
		return errPooler
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize(), pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return nil
}
