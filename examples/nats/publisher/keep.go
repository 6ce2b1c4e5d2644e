package publisher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
	// stableAfter is how long a session must last before the pauses begin at firstPause again.
	stableAfter = 15 * time.Second
)

// PermanentError is an error that a new connection would not solve.
type PermanentError struct{ Err error }

func (p PermanentError) Error() string { return p.Err.Error() }

// Unwrap returns the error.
func (p PermanentError) Unwrap() error { return p.Err }

// KeepConnected connects and runs use, and repeats this until ctx ends: then it returns nil. It
// returns an error only if use returned a [PermanentError] one.
func KeepConnected(ctx context.Context, c Config, use func(context.Context, *Session) error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstPause, maxPause
	for {
		began := time.Now()
		err := connectAndUse(ctx, c, use)
		_, permanent := errors.AsType[PermanentError](err)
		switch {
		case permanent:
			return err
		case ctx.Err() != nil:
			return nil
		case time.Since(began) > stableAfter:
			pause.Reset()
		}
		wait := pause.NextBackOff()
		slog.WarnContext(ctx, "no session with NATS, trying again", "in", wait.Round(time.Millisecond).String(), "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// connectAndUse cancels the context of use when the session ends. When ctx ends, the session stays
// open until use returns, so that use can finish its batch.
func connectAndUse(ctx context.Context, c Config, use func(context.Context, *Session) error) error {
	s, err := Connect(c)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		select {
		case <-s.ended:
			end(s.reason())
		case <-ctx.Done():
		}
	}()
	if err := use(ctx, s); err != nil {
		return err
	}
	return context.Cause(ctx)
}
