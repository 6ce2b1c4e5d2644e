package wakeup

import (
	"context"
	"log/slog"
	"time"

	"example.com/transactional-outbox/internal/postgres"
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

// Relay is the relay of this process.
type Relay interface {
	// Busy reports that no worker has received the last wake-up.
	Busy() bool
}

// Notifier notifies the relays of other processes.
type Notifier struct {
	notify    func(ctx context.Context) error
	committed chan struct{}
	failing   bool
}

// NewNotifier returns a notifier that does nothing until Run. db should not be the pool of the
// orders, so that orders do not wait for notifications.
func NewNotifier(db *postgres.DB) *Notifier {
	return newNotifier(func(ctx context.Context) error {
		return db.InTx(ctx, func(tx *postgres.Tx) error {
			return tx.Write("notifying", notifySQL, postgres.Args{"channel": channel})
		})
	})
}

const notifySQL = "SELECT pg_notify(@channel, '')"

func newNotifier(notify func(context.Context) error) *Notifier {
	return &Notifier{notify: notify, committed: make(chan struct{}, 1)}
}

// Committed says that an event was committed. It never blocks.
func (n *Notifier) Committed() {
	select {
	case n.committed <- struct{}{}:
	default: // a notification is already pending, and one is enough for both commits
	}
}

// Run sends notifications until ctx ends, and then one for the last commit. own is the relay of
// this process, or nil if it has none.
func (n *Notifier) Run(ctx context.Context, own Relay) error {
	for n.next(ctx) {
		// A relay that is asked to stop claims nothing more. So then the others are always notified.
		if own != nil && wait(ctx, ownRelayDelay) && !own.Busy() {
			continue
		}
		if !wait(ctx, n.notifyOnce(ctx)) && n.failing {
			break // the poll finds the event
		}
	}
	return nil
}

// next waits for a commit or for the end of ctx. It reports whether there is a commit.
func (n *Notifier) next(ctx context.Context) bool {
	select {
	case <-n.committed:
		return true
	case <-ctx.Done():
	}
	select {
	case <-n.committed:
		return true
	default:
		return false
	}
}

// notifyOnce notifies, and returns how long to wait until the next time.
func (n *Notifier) notifyOnce(ctx context.Context) (pause time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	err := n.notify(ctx)
	switch {
	case err != nil && !n.failing:
		slog.WarnContext(ctx, "cannot notify the relays of other processes: they find events by their poll", "error", err)
	case err == nil && n.failing:
		slog.InfoContext(ctx, "notifying the relays of other processes again")
	}
	n.failing = err != nil
	if !n.failing {
		return minInterval
	}
	n.Committed() // try again later
	return failurePause
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
