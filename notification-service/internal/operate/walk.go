package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/transactional-outbox/internal/operator"
	"example.com/transactional-outbox/internal/rabbitmq"
)

// found is a message that a look through the queue came to. It is in our hands until
// the look is over.
type found struct {
	rabbitmq.Taken
	Letter
}

// walk shows each message to see, until see has enough or ctx ends, and gives back
// what was not removed. It keeps none: their bodies may be large.
func (d Desk) walk(ctx context.Context, s Session, see func(found) (goOn bool, err error)) (err error) {
	browser, err := s.Browse(d.Queue)
	if errors.Is(err, rabbitmq.ErrNoQueue) {
		return fmt.Errorf("%w; see that AMQP_URL names the right virtual host, and start notification-service: it declares its queues", err)
	}
	if err != nil {
		return err
	}
	defer func() {
		if failed := browser.GiveBack(); err == nil {
			err = failed
		}
	}()
	far := operator.Progress{To: d.Progress, Noun: message, Total: browser.Count()}
	for seen := 0; ctx.Err() == nil; seen++ {
		if seen > 0 && (seen%operator.BatchSize == 0 || seen == far.Total) {
			far.At(seen)
		}
		taken, ok, err := browser.Next()
		if err != nil || !ok {
			return err
		}
		if goOn, err := see(found{taken, letterOf(taken.Message, time.Now())}); err != nil || !goOn {
			return err
		}
	}
	return context.Cause(ctx)
}
