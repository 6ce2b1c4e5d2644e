package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// SessionTimeout is how long a command waits for a session. A service waits without a limit.
const SessionTimeout = 30 * time.Second

// ErrNoSession says that a broker or a mail server cannot be reached, or refuses the session.
var ErrNoSession = errors.New("gave no session")

const theBroker = "the broker that AMQP_URL names"

// WithSession runs use on one session with RabbitMQ, see [OnSession].
func WithSession(
	ctx context.Context, connection rabbitmq.Config, timeout time.Duration, use func(context.Context, *rabbitmq.Session) error,
) error {
	return OnSession(ctx, theBroker, timeout, func(ctx context.Context, use func(context.Context, *rabbitmq.Session) error) error {
		return rabbitmq.KeepConnected(ctx, connection, use)
	}, use)
}

// OnSession runs use on one session of those that keepConnected opens, and does not reconnect. If
// the session breaks, it returns an error, so that the user can decide whether to run the command
// again. With says with whom the session is, such as "the broker that AMQP_URL names".
func OnSession[S any](
	ctx context.Context, with string, timeout time.Duration, keepConnected func(context.Context, func(context.Context, S) error) error,
	use func(context.Context, S) error,
) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errTimeout := fmt.Errorf("%s %w within %s; the log above says why", with, ErrNoSession, timeout)
	timer := time.AfterFunc(timeout, func() { cancel(errTimeout) })
	defer timer.Stop()

	used := false
	keepErr := keepConnected(ctx, func(ctx context.Context, s S) error {
		if !timer.Stop() {
			return nil
		}
		defer cancel(nil)
		used, err = true, use(ctx, s)
		return err
	})
	if !used {
		return errors.Join(keepErr, context.Cause(ctx))
	}
	return err
}

// Advice returns what the user can do about a message that the broker did not take.
func Advice(o publish.Outcome) string {
	switch o {
	case publish.Returned:
		return "start the services that consume it: they bind their queues"
	case publish.Refused:
		return "look for a queue that is full"
	default:
		return "check that the broker runs, and that the services have declared their exchanges"
	}
}

// Name returns the user who runs this command, for the log.
func Name() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid()) // a container may have no user names
}
