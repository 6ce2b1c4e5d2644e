package page

import (
	"context"
	"sync"
	"time"

	"example.com/transactional-outbox/internal/panics"
)

// once asks a question for all who want the answer at about the same time. An answer is kept for a
// little less than a second, errors too: a server that is away is not asked more often than others.
type once[T any] struct {
	ask     func(context.Context) (T, error)
	timeout time.Duration

	mu     sync.Mutex
	answer T
	err    error
	at     time.Time
	asking chan struct{} // closed when the answer is there; nil: nobody asks
}

// get returns the answer, or the error of ctx.
func (o *once[T]) get(ctx context.Context) (T, error) {
	o.mu.Lock()
	if time.Since(o.at) < minSampleAge {
		defer o.mu.Unlock()
		return o.answer, o.err
	}
	asking := o.asking
	if asking == nil {
		asking = make(chan struct{})
		o.asking = asking
		go o.update(context.WithoutCancel(ctx), asking)
	}
	o.mu.Unlock()
	select {
	case <-asking:
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.answer, o.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// update asks. It does not end with the first who wanted the answer, because others wait for it
// too.
func (o *once[T]) update(ctx context.Context, asking chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var answer T
	err := panics.Catch(ctx, func() (err error) {
		answer, err = o.ask(ctx)
		return err
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer, o.err, o.at, o.asking = answer, err, time.Now(), nil
	close(asking)
}
