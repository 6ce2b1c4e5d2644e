package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

// Found is a message that was taken from the queue. It is held until the reading ends.
type Found struct {
	rabbitmq.BrowsedMessage
	DeadLetter
}

// Progress is called before each message is taken: seen of total are read. It may be nil.
type Progress func(seen, total int)

// Read calls visit with each message, until visit returns false or ctx ends. It reads at most limit
// messages; 0 means all that were in the queue at the beginning. Then it gives all of them back. It
// keeps none in memory, because the bodies may be large.
func (q Queue) Read(ctx context.Context, limit int, progress Progress, visit func(Found) (goOn bool)) error {
	return q.Connect(ctx, func(ctx context.Context, s Session) error {
		return q.browse(s, func(b Browser) error {
			return each(ctx, b, limit, progress, func(f Found) (bool, error) { return visit(f), nil })
		})
	})
}

// browse calls use, and then gives back the messages that were not removed.
func (q Queue) browse(s Session, use func(Browser) error) (err error) {
	browser, err := s.Browse(q.Name)
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
	return use(browser)
}

func each(ctx context.Context, b Browser, limit int, progress Progress, visit func(Found) (goOn bool, err error)) error {
	total := b.Count()
	if limit > 0 {
		total = min(total, limit)
	}
	for seen := 0; ctx.Err() == nil; seen++ {
		if progress != nil {
			progress(seen, b.Count())
		}
		if limit > 0 && seen == total {
			return nil
		}
		taken, ok, err := b.Next()
		if err != nil || !ok {
			return err
		}
		if goOn, err := visit(Found{taken, parse(taken.Message, time.Now())}); err != nil || !goOn {
			return err
		}
	}
	return context.Cause(ctx)
}
