package rabbitmq

import (
	"context"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// readier and runner are what a [Handler] may be, and what an inbox is.
type (
	readier interface {
		Ready(ctx context.Context) (now time.Time, err error)
	}
	runner interface {
		Run(ctx context.Context) error
	}
)

// isWhole is true for a handler with one of the two methods: it needs none of what it wraps.
func (c *Consumer) isWhole() bool {
	_, ready := c.handler.(readier)
	_, runs := c.handler.(runner)
	return ready || runs
}

// noteInbox runs an inbox beside the consumer, from when the handler first reaches it.
func (c *Consumer) noteInbox(inbox any) {
	c.noting.Lock()
	defer c.noting.Unlock()
	const most = 16 // a handler that makes an inbox for each message needs no more
	if len(c.inboxes) == most || slices.Contains(c.inboxes, inbox) {
		return
	}
	c.inboxes = append(c.inboxes, inbox)
	if r, ok := inbox.(runner); ok {
		c.runBeside(r)
	}
}

// runNoMore lets no other inbox begin to run: a handler that does not return may reach it at any time.
func (c *Consumer) runNoMore() {
	c.noting.Lock()
	defer c.noting.Unlock()
	c.runBeside = func(runner) {}
}

// readyTimeout limits one call of the handler's Ready.
const readyTimeout = 15 * time.Second

// ready returns the handler's time.
func (c *Consumer) ready(ctx context.Context) (now time.Time, err error) {
	now = time.Now()
	c.noting.Lock()
	inboxes := slices.Clone(c.inboxes)
	c.noting.Unlock()
	for _, inbox := range inboxes {
		asked, ok := inbox.(readier)
		if !ok {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		err = withoutPanic(ctx, c.queue.Logger, func() (err error) {
			now, err = asked.Ready(ctx)
			return err
		})
		if err != nil {
			return now, err
		}
	}
	c.asked.handlersTime, c.asked.ownTime = now, time.Now()
	return now, nil
}

// now is the handler's time, without asking it: the database may be away. No message is taken
// before the handler was ready once.
func (c *Consumer) now() time.Time {
	return c.asked.handlersTime.Add(time.Since(c.asked.ownTime)) // by the monotonic clock
}

// Pauses while the handler is not ready.
const (
	firstReadyPause = time.Second
	maxReadyPause   = 10 * time.Second
)

// awaitReady returns true when the handler is ready, and false when ctx has ended.
func (c *Consumer) awaitReady(ctx context.Context) bool {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstReadyPause, maxReadyPause
	for ctx.Err() == nil {
		_, err := c.ready(ctx)
		if err == nil {
			return true
		}
		c.pauseBecause(ctx, err, pause.NextBackOff())
	}
	return false
}
