package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// listenCheck is how often a listening connection is checked. A dead connection looks like one
	// without notifications.
	listenCheck = 10 * time.Second
	// listenTimeout bounds the wait for a connection, and for each answer to a check.
	listenTimeout = 5 * time.Second

	firstListenPause   = 250 * time.Millisecond
	longestListenPause = 10 * time.Second
	listenJitter       = 0.2
	// listenStable is how long a connection must last before the pauses begin again at the first.
	listenStable = 15 * time.Second
)

// listener wakes the workers at each notification of another process.
type listener struct {
	pool      *pgxpool.Pool
	wake      func()
	listening *atomic.Bool
	log       *lines
	lost      bool // whether the loss of the connection is logged
}

// run listens on one connection after the other until ctx ends. It logs each time it begins to
// listen. When it cannot listen, it logs that only once until it listens again. The growing pauses
// limit the lines, and each one is written: the last one tells whether it listens now.
func (l *listener) run(ctx context.Context) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.RandomizationFactor = firstListenPause, longestListenPause, listenJitter
	for {
		began := time.Now()
		err := l.listen(ctx)
		l.listening.Store(false)
		if ctx.Err() != nil {
			return nil
		}
		if !l.lost {
			l.log.WarnContext(ctx, "not listening: the relay finds events of other processes by its poll", "error", err)
		}
		l.lost = true
		if time.Since(began) > listenStable {
			pause.Reset()
		}
		if !wait(ctx, pause.NextBackOff()) {
			return nil
		}
	}
}

// listen listens on a connection that it takes out of the pool: a pool closes its connections at
// any time. It returns an error when ctx ends, or when the connection is lost or deaf.
func (l *listener) listen(ctx context.Context) error {
	conn, err := hijack(ctx, l.pool)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // does not wait for an answer
	channel, err := beginListening(ctx, conn)
	if err != nil {
		return err
	}
	l.started(ctx)
	for {
		if err := l.receive(ctx, conn); err != nil {
			return err
		}
		// A second LISTEN changes nothing. Its answer shows that the connection works.
		again, err := beginListening(ctx, conn)
		if err != nil {
			return err
		}
		if again != channel {
			return errors.New("the tables of the outbox were replaced")
		}
	}
}

// started also wakes the workers, because events may have been committed before it listened.
func (l *listener) started(ctx context.Context) {
	l.log.InfoContext(ctx, "listening for events of other processes")
	l.lost = false
	l.listening.Store(true)
	l.wake()
}

// receive wakes the workers at each notification until it is time for a check.
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
		l.wake()
	}
}

func hijack(ctx context.Context, pool *pgxpool.Pool) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("taking a connection to listen on: %w", err)
	}
	return conn.Hijack(), nil
}

// channelSQL is the channel of LISTEN and NOTIFY. It has the number of a table, so that each schema
// of a database has a channel of its own.
const channelSQL = `'outbox_' || 'outbox_queue'::regclass::oid::text`

// errPooler says that a pooler such as PgBouncer is in front of the database. In transaction mode,
// a client has a session for one transaction only. LISTEN succeeds, but we get no notifications.
// The client that has the session later gets them, and its driver would store them for ever.
var errPooler = errors.New("a pooler is between this process and the database, and LISTEN does not work through it")

// beginListening compares the process id from the start of the connection with that of the session
// that answers, because a pooler invents the first one. Then it listens.
func beginListening(ctx context.Context, conn *pgx.Conn) (channel string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	var answers uint32
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid(), "+channelSQL, pgx.QueryExecModeSimpleProtocol).Scan(&answers, &channel)
	if err != nil {
		return "", fmt.Errorf("checking the connection that listens: %w", err)
	}
	if answers != conn.PgConn().PID() {
		return "", errPooler
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize(), pgx.QueryExecModeSimpleProtocol); err != nil {
		return "", fmt.Errorf("listening: %w", err)
	}
	return channel, nil
}
