package googlepubsub

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"example.com/transactional-outbox/outbox/publish"
)

const (
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
	jitter     = 0.2
	// stableAfter is how long a session must last before the pauses begin at firstPause again.
	stableAfter = 15 * time.Second
)

// System is OpenTelemetry's name for Pub/Sub.
func (c Config) System() string { return "gcp_pubsub" }

// Name is the topic of messages that name no destination: the first one.
func (c Config) Name() string { return c.Topics[0] }

// KeepConnected opens a session and runs use, and repeats this until ctx ends. When ctx ends, use
// may finish what is in flight, on a session that still works. It makes a Config a
// [publish.Destination].
func (c Config) KeepConnected(ctx context.Context, use func(ctx context.Context, s publish.Session) error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.RandomizationFactor = firstPause, maxPause, jitter
	for {
		began := time.Now()
		err := connectAndUse(ctx, c, use)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > stableAfter {
			pause.Reset()
		}
		wait := pause.NextBackOff()
		slog.WarnContext(ctx, "no session with Pub/Sub, trying again", "in", wait.Round(time.Millisecond).String(), "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func connectAndUse(ctx context.Context, c Config, use func(context.Context, publish.Session) error) error {
	s, err := Connect(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	slog.InfoContext(ctx, "connected to Pub/Sub", "project", c.Project)
	return use(ctx, s)
}
