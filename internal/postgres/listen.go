package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// listenCheck is how often a listening connection is checked. A dead connection looks like one
	// without notifications.
	listenCheck = 10 * time.Second
	// listenTimeout limits the wait for the answer to LISTEN.
	listenTimeout = 5 * time.Second
)

// Listen waits for notifications on channel. It opens its own connection: the server sends
// notifications to a session, and a pool opens and closes sessions at any time. Listen returns an
// error when ctx ends or the connection is lost.
//
// It calls listening as soon as the server sends notifications, and notified after each one. Both
// must return soon. There is no notification for changes that were committed before.
//
// It refuses to listen through a pooler, see [ErrPooler].
func Listen(ctx context.Context, url, channel string, listening, notified func()) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	setSessionTimeouts(config.RuntimeParams)
	setConnectionTimeouts(config)
	requireWrites(config)
	conn, err := connectToLast(ctx, config, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // does not wait for an answer
	if err := checkNoPooler(ctx, conn); err != nil {
		return err
	}
	if err := listen(ctx, conn, channel); err != nil {
		return err
	}
	listening()
	for {
		if err := receive(ctx, conn, notified); err != nil {
			return err
		}
		// A second LISTEN changes nothing. Its answer shows that the connection works.
		if err := listen(ctx, conn, channel); err != nil {
			return err
		}
	}
}

// ErrPooler says that a pooler such as PgBouncer is in front of the database. In transaction mode,
// a client has a session for one transaction only. LISTEN succeeds, but we get no notifications.
// The client that has the session later gets them, and its driver would store them for ever.
var ErrPooler = errors.New("a pooler is between this process and the database, and LISTEN does not work through it")

// checkNoPooler compares the process id from the start of the connection with that of the session
// that answers. A pooler invents the first one.
func checkNoPooler(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	var answers uint32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&answers)
	if err == nil && answers != conn.PgConn().PID() {
		return ErrPooler
	}
	return err
}

func listen(ctx context.Context, conn *pgx.Conn, channel string) error {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize())
	return err
}

// receive calls notified for each notification until it is time for a check.
func receive(ctx context.Context, conn *pgx.Conn, notified func()) error {
	untilCheck, cancel := context.WithTimeout(ctx, listenCheck)
	defer cancel()
	for {
		if _, err := conn.WaitForNotification(untilCheck); err != nil {
			if untilCheck.Err() != nil && ctx.Err() == nil {
				return nil
			}
			return err
		}
		notified()
	}
}
