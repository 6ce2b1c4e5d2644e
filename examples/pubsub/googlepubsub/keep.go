package googlepubsub

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
	jitter     = 0.2
	// stableAfter is how long a session must last before the pauses begin at firstPause again.
	stableAfter = 15 * time.Second
)

// KeepConnected opens a session and runs use, and repeats this until ctx ends. When ctx ends, use
// may finish what is in flight, on a session that still works.
func KeepConnected(ctx context.Context, c Config, use func(ctx context.Context, s *Session) error) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.RandomizationFactor = firstPause, maxPause, jitter
	for {
		began := time.Now()
		err := connectAndUse(ctx, c, use)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > stableAfter {
			pause.Reset()
		}
		wait := pause.NextBackOff()
		slog.WarnContext(ctx, "no session with Pub/Sub, trying again", "in", wait.Round(time.Millisecond).String(), "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func connectAndUse(ctx context.Context, c Config, use func(context.Context, *Session) error) error {
	s, err := Connect(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	slog.InfoContext(ctx, "connected to Pub/Sub", "project", c.Project)
	return use(ctx, s)
}
