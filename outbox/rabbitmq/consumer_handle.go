package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/internal/handling"
)

// overdue is a call of the handler that has not returned.
type overdue struct {
	since time.Time // when it should have returned
	id    string    // of its first message
}

// patience is for a handler whose context has ended.
const patience = time.Second

var (
	errNotReturned = errors.New("the handler has not returned")
	errGoexit      = errors.New("the handler has ended its goroutine")
)

// handle calls the handler. A call goes on after the end of the session, until c.finish, and so does
// the wait for a handler that does not look at its context. If c.finish ends first, its messages are
// not acknowledged.
func (c *Consumer) handle(messages []*message) error {
	ctx, cancel := context.WithTimeout(c.finish, c.queue.HandleTimeout)
	defer cancel()
	returned := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() { returned <- err }() // also after runtime.Goexit
		err = c.call(ctx, messages)
	}()
	select {
	case err := <-returned:
		return err
	case <-ctx.Done():
	}
	late := &overdue{time.Now(), messages[0].ID}
	select {
	case err := <-returned:
		return err
	case <-time.After(patience):
	}
	c.overdue.Store(late)
	defer c.overdue.Store(nil)
	c.queue.Logger.ErrorContext(c.finish, "the handler has not returned", "queue", c.queue.Name, "message_id", late.id,
		"messages", len(messages), "handle_timeout", c.queue.HandleTimeout.String())
	select {
	case err := <-returned:
		return err
	case <-c.finish.Done():
		return errNotReturned
	}
}

func (c *Consumer) call(ctx context.Context, messages []*message) error {
	if !c.isWhole() { // the handler is a function: notice the inbox that it calls
		ctx = handling.With(ctx, c.noteInbox)
	}
	batch := make([]Message, len(messages))
	for i, m := range messages {
		batch[i] = m.Message
	}
	if len(messages) == 1 {
		ctx = trace.ContextWithSpan(ctx, messages[0].span)
	}
	return withoutPanic(ctx, c.queue.Logger, func() error { return c.handler.Handle(ctx, batch) })
}

// errPanic is the error of what panicked.
var errPanic = errors.New("panic")

func withoutPanic(ctx context.Context, log *slog.Logger, do func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			log.ErrorContext(ctx, "panic while handling a message", "error", reason, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", errPanic, reason)
		}
	}()
	if err = do(); err != nil {
		_ = err.Error() // a nil pointer in an error may panic here, and must not do so later
		_, _ = permanent(err)
	}
	return err
}
