package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"example.com/transactional-outbox/internal/rabbitmq"
)

// BrokerPatience is how long a command waits for a session, where a service would
// wait for ever.
const BrokerPatience = 30 * time.Second

// OnceConnected runs use on a single session: when that breaks, somebody should know,
// and decide whether to go on.
func OnceConnected(
	ctx context.Context, connection rabbitmq.Config, patience time.Duration, use func(context.Context, *rabbitmq.Session) error,
) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	tooLate := fmt.Errorf("the broker that AMQP_URL names gave no session within %s; the log above says why", patience)
	waiting := time.AfterFunc(patience, func() { end(tooLate) })
	defer waiting.Stop()

	used := false
	kept := rabbitmq.Keep(ctx, connection, func(ctx context.Context, s *rabbitmq.Session) error {
		if !waiting.Stop() {
			return nil
		}
		defer end(nil)
		used, err = true, use(ctx, s)
		return err
	})
	if !used {
		return errors.Join(kept, context.Cause(ctx))
	}
	return err
}

// Advice says what to do about a message that the broker did not take.
func Advice(o rabbitmq.Outcome) string {
	switch o {
	case rabbitmq.Returned:
		return "start the services that consume it, they bind their queues"
	case rabbitmq.Refused:
		return "look for a queue that is full"
	default:
		return "see that the broker runs, and that the services have declared their exchanges"
	}
}

// Name is who runs this command, for the log.
func Name() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid()) // a container knows no names
}
