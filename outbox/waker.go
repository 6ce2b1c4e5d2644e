package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// minInterval is the shortest time between two notifications.
	minInterval = 5 * time.Millisecond
	// ownRelayDelay is how long the relay of this process has to receive the wake-up itself.
	ownRelayDelay = 20 * time.Millisecond
	// notifyTimeout bounds a notification.
	notifyTimeout = time.Second
	// failurePause is the pause before a failed notification is tried again.
	failurePause = time.Second
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
	notify    func(ctx context.Context) error
	committed chan struct{}
	log       *lines
}

// NewWaker returns a waker that does nothing until Run.
func NewWaker(pool *pgxpool.Pool) *Waker { return newWaker(notifyOn(pool), newLines(slog.Default())) }

func newWaker(notify func(context.Context) error, log *lines) *Waker {
	return &Waker{notify: notify, committed: make(chan struct{}, 1), log: log}
}

// notifySQL notifies on the channel of this schema's outbox. It is one statement, so it is its own
// transaction. Its commit writes no data, and need not wait for the disk.
const notifySQL = `SELECT set_config('synchronous_commit', 'off', true), pg_notify(` + channelSQL + `, '')`

func notifyOn(pool *pgxpool.Pool) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := pool.Exec(ctx, notifySQL, pgx.QueryExecModeSimpleProtocol)
		return err
	}
}

// Wake is as [Relay.Wake], for the relays of other processes only.
func (w *Waker) Wake() { signal(w.committed) }

// Run sends notifications until ctx ends, and then one for the last commit. It returns nil.
func (w *Waker) Run(ctx context.Context) error { return w.run(ctx, nil) }

// run notifies the others only if the relay of this process, if it has one, is busy. If it always
// did, most relays would find nothing, and an empty claim costs the database as much as a batch.
func (w *Waker) run(ctx context.Context, busy func() bool) error {
	for w.next(ctx) {
		// A relay that is asked to stop claims nothing more. So then the others are always notified.
		if busy != nil && wait(ctx, ownRelayDelay) && !busy() {
			continue
		}
		err := w.notifyOnce(ctx)
		if err == nil {
			wait(ctx, minInterval)
			continue
		}
		w.log.trouble(ctx, "cannot notify the relays of other processes: they find events by their poll", "error", err)
		if !wait(ctx, failurePause) {
			break
		}
		w.Wake() // try again
	}
	return nil
}

// next waits for a commit or for the end of ctx. It reports whether there is a commit.
func (w *Waker) next(ctx context.Context) bool {
	select {
	case <-w.committed:
		return true
	case <-ctx.Done():
	}
	select {
	case <-w.committed:
		return true
	default:
		return false
	}
}

// notifyOnce notifies also if ctx has ended, because of the last commit.
func (w *Waker) notifyOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	return w.notify(ctx)
}

// wait reports whether d has passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
