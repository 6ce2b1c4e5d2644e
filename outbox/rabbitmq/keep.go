package rabbitmq

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Config has the URL of the broker, and the name that the broker shows for this connection.
type Config struct {
	// URL is amqp://user:password@host:port,host:port/vhost. The hosts are the nodes of one cluster.
	URL string
	// FreshURL is asked for the URL at each new connection, if it is set: a password may have changed.
	FreshURL func() (string, error)
	Name     string
	Logger   *slog.Logger // default: slog.Default()

	failed func(error) // may be nil; is told why there is no session
}

func (c Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.Default()
	}
	return c.Logger
}

// After the first minute there are fewer than ten attempts to connect a minute, which spares a
// broker that struggles. They are close enough that work goes on within 15 s of its return.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
	jitter     = 0.2
	// stableAfter is how long a session must last before the pauses begin at firstPause again. A
	// network that cuts connections every two seconds still leaves time to work between the cuts.
	stableAfter = time.Second
)

// KeepConnected connects and runs use, and repeats this until ctx ends. The context of use ends
// with its session, or with ctx. Then use must return. If ctx has ended, the session still works,
// and use may finish the work in flight first.
//
// Each attempt tries the nodes of the URL, one after the other. Only if all of them fail, it pauses
// before the next attempt.
//
// KeepConnected returns nil when ctx ends. It returns only errors that a new connection cannot
// solve: a [MismatchError].
func KeepConnected(ctx context.Context, c Config, use func(ctx context.Context, s *Session) error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.RandomizationFactor = firstPause, maxPause, jitter
	for {
		open, err := connectAndUse(ctx, c, use)
		if ctx.Err() != nil {
			return nil
		}
		if _, mismatch := errors.AsType[*MismatchError](err); mismatch {
			return err
		}
		if open > stableAfter {
			pause.Reset()
		}
		if c.failed != nil {
			c.failed(err)
		}
		wait := pause.NextBackOff()
		c.logger().WarnContext(ctx, "no session with the broker, trying again",
			"connection", c.Name, "in", wait.Round(time.Millisecond).String(), "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// connectAndUse returns how long the session was open.
func connectAndUse(ctx context.Context, c Config, use func(context.Context, *Session) error) (open time.Duration, err error) {
	s, err := connect(ctx, c)
	if err != nil {
		return 0, err
	}
	defer s.close()
	opened := time.Now()
	c.logger().InfoContext(ctx, "connected to the broker", "connection", c.Name, "host", s.host)

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.onClose(end)
	err = use(ctx, s)
	if err == nil {
		err = context.Cause(ctx)
	}
	return time.Since(opened), err
}

// mismatchPause is how long keepDeclaring waits after the broker has refused what was declared.
const mismatchPause = 10 * time.Second

// keepDeclaring is KeepConnected, and goes on after a [MismatchError] too. Nobody has to restart
// the process after the object was deleted or renamed.
func keepDeclaring(ctx context.Context, c Config, waits func(what string), use func(context.Context, *Session) error) error {
	for {
		err := KeepConnected(ctx, c, use)
		if _, mismatch := errors.AsType[*MismatchError](err); !mismatch {
			return err
		}
		if c.failed != nil {
			c.failed(err)
		}
		waits("a broker whose exchanges and queues are as they are declared here")
		c.logger().ErrorContext(ctx, "the broker has something of this name with other properties, trying again",
			"connection", c.Name, "in", mismatchPause.String(), "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(mismatchPause):
		}
	}
}
