package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/rabbitmq"
)

// found is a message that browse has taken from the queue. The command holds it until browse
// ends.
type found struct {
	rabbitmq.BrowsedMessage
	DeadLetter
}

// browse calls visit with each message, until visit returns false or ctx ends. Then it gives back
// the messages that were not removed. It keeps none in memory, because the bodies may be large.
func (deps Dependencies) browse(ctx context.Context, s Session, visit func(found) (goOn bool, err error)) (err error) {
	browser, err := s.Browse(deps.Queue)
	if errors.Is(err, rabbitmq.ErrNoQueue) {
		return fmt.Errorf("%w; check that AMQP_URL names the right virtual host, and start notification-service: it declares its queues", err)
	}
	if err != nil {
		return err
	}
	defer func() {
		if failed := browser.Requeue(); err == nil {
			err = failed
		}
	}()
	progress := cli.Progress{To: deps.Progress, Noun: message, Total: browser.Count()}
	for seen := 0; ctx.Err() == nil; seen++ {
		if seen > 0 && (seen%cli.BatchSize == 0 || seen == progress.Total) {
			progress.At(seen)
		}
		taken, ok, err := browser.Next()
		if err != nil || !ok {
			return err
		}
		if goOn, err := visit(found{taken, parseDeadLetter(taken.Message, time.Now())}); err != nil || !goOn {
			return err
		}
	}
	return context.Cause(ctx)
}
