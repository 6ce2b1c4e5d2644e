package rabbitmq

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Config says which broker, and by which name it will see this connection.
type Config struct {
	URL  string // amqp://user:password@host:port/vhost
	Name string
}

// After the first minute there are fewer than ten attempts to connect a minute, which spares a
// broker that struggles. They are close enough that work goes on within 15 s of its return.
const (
	firstPause  = 250 * time.Millisecond
	longestWait = 10 * time.Second
	jitter      = 0.2
	// settled is how long a session must have lasted to count as a good one.
	settled = 15 * time.Second
	// maxUnreadable is how many sessions in a row may end over a message without a pause.
	// The delivery limit of a queue ends it much earlier.
	maxUnreadable = 200
)

// ErrUnreadable says that the client library could not read what the broker sent: a message
// with headers that it does not know, as a rule. The broker counts a delivery of it, and
// delivers it again.
var ErrUnreadable = errors.New("the broker sent what cannot be read")

// Keep connects and runs use, again and again until ctx ends. The context of use ends with its
// session, or with ctx. Then use must return. If ctx ended, the session still works, and use
// may finish what is in flight first.
//
// A session that ends over an unreadable message is no outage: Keep connects again at once.
//
// Keep returns nil after ctx, and an error only for what no reconnecting mends: a
// [MismatchError].
func Keep(ctx context.Context, c Config, use func(ctx context.Context, s *Session) error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.RandomizationFactor = firstPause, longestWait, jitter
	for unreadable := 0; ; {
		began := time.Now()
		err := connectAndUse(ctx, c, use)
		if ctx.Err() != nil {
			return nil
		}
		if _, mismatch := errors.AsType[*MismatchError](err); mismatch {
			return err
		}
		if time.Since(began) > settled {
			unreadable = 0
			pause.Reset()
		}
		if errors.Is(err, ErrUnreadable) && unreadable < maxUnreadable {
			unreadable++
			slog.WarnContext(ctx, "a message ended the session, connecting again", "connection", c.Name, "error", err)
			continue
		}
		wait := pause.NextBackOff()
		slog.WarnContext(ctx, "no session with the broker, trying again",
			"connection", c.Name, "in", wait.Round(time.Millisecond).String(), "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func connectAndUse(ctx context.Context, c Config, use func(context.Context, *Session) error) error {
	s, err := connect(ctx, c)
	if err != nil {
		return err
	}
	defer s.close()
	slog.InfoContext(ctx, "connected to the broker", "connection", c.Name)

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.onClose(end)
	err = use(ctx, s)
	if reason := context.Cause(ctx); err == nil || errors.Is(reason, ErrUnreadable) {
		return reason // not what followed from it
	}
	return err
}
