package relay

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// health has what Health reports: what the relay waits for.
type health struct {
	database atomic.Pointer[error] // why the last statement failed, or nil
	blocked  atomic.Bool           // the destination asks to wait
	sessions atomic.Int64          // with the destination
	lost     atomic.Int64          // when the last of them ended, or Run began, in Unix seconds
}

// endSession notes since when there is no session.
func (h *health) endSession() {
	if h.sessions.Add(-1) == 0 {
		h.lost.Store(time.Now().Unix())
	}
}

// ErrNoDatabase is outbox.ErrNoDatabase.
var ErrNoDatabase = errors.New("the relay waits for the database")

var errAwaited = errors.New("it has not answered yet")

const readyPause = 500 * time.Millisecond

// AwaitDatabase asks until the database takes writes. It returns an error if waiting cannot help.
func (r *Relay) AwaitDatabase(ctx context.Context, ask func(context.Context) (never, err error)) error {
	r.health.lost.Store(time.Now().Unix())
	r.health.database.Store(&errAwaited)
	for {
		never, err := ask(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			r.health.database.Store(nil)
			return never
		}
		r.health.database.Store(&err)
		r.report.log.Trouble(ctx, "the relay waits for the database", "error", err)
		Wait(ctx, readyPause)
	}
}

// Up reports whether there is a session with the destination.
func (r *Relay) Up() bool { return r.health.sessions.Load() > 0 }

// Health is that of outbox.Relay, while it runs.
func (r *Relay) Health() error {
	if database := r.health.database.Load(); database != nil {
		return fmt.Errorf("%w: %w", ErrNoDatabase, *database)
	}
	switch {
	case !r.Up():
		since := time.Unix(r.health.lost.Load(), 0).UTC().Format(time.RFC3339)
		if to, ok := r.to.(interface{ LastError() error }); ok && to.LastError() != nil {
			return fmt.Errorf("the relay waits for a session with %s since %s: %w", r.report.destination, since, to.LastError())
		}
		return fmt.Errorf("the relay waits for a session with %s since %s", r.report.destination, since)
	case r.health.blocked.Load():
		return fmt.Errorf("the relay waits for %s to take messages", r.report.destination)
	}
	_, err := r.unanswered.silence()
	return err
}
