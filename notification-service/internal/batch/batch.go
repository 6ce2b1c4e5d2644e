// Package batch lets many goroutines share one step: what they submit at the same time is
// processed together. A transaction for 60 messages costs little more than one for a
// single message.
//
// A batch is whatever is there when a worker is free. A lone request waits for nobody.
package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Batcher processes requests of type In, each with a result of type Out.
type Batcher[In, Out any] struct {
	size     int
	process  func(ctx context.Context, batch []In) []Out
	requests chan request[In, Out]
	stopped  chan struct{}
}

// ErrStopped says that the request was not processed: the batcher has ended.
var ErrStopped = errors.New("nothing is processed any more")

type request[In, Out any] struct {
	in    In
	reply chan<- Out
}

// New returns a batcher whose batches have at most size requests. process returns one
// result for each request, in their order, within a bounded time.
func New[In, Out any](size int, process func(ctx context.Context, batch []In) []Out) *Batcher[In, Out] {
	return &Batcher[In, Out]{size: size, process: process, requests: make(chan request[In, Out]), stopped: make(chan struct{})}
}

// Do submits a request and waits for its result. It returns an error only if no worker
// took the request before ctx or Run ended; then nothing was done.
func (b *Batcher[In, Out]) Do(ctx context.Context, in In) (out Out, err error) {
	reply := make(chan Out, 1)
	select {
	case b.requests <- request[In, Out]{in, reply}:
		return <-reply, nil // a worker always replies
	case <-b.stopped:
		if ctx.Err() != nil { // the caller knows why
			return out, context.Cause(ctx)
		}
		return out, ErrStopped
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
}

// Run processes batches until ctx ends, at most the given number at the same time. It runs
// once. The context of process is ctx.
func (b *Batcher[In, Out]) Run(ctx context.Context, workers int) error {
	defer close(b.stopped)
	var running errgroup.Group
	for range workers {
		running.Go(func() error {
			for {
				batch := b.gather(ctx)
				if len(batch) == 0 {
					return nil
				}
				b.answer(ctx, batch)
			}
		})
	}
	return running.Wait()
}

// gather waits for a first request, and takes those that wait already.
func (b *Batcher[In, Out]) gather(ctx context.Context) (batch []request[In, Out]) {
	select {
	case <-ctx.Done():
		return nil
	case first := <-b.requests:
		batch = append(batch, first)
	}
	runtime.Gosched() // goroutines that are about to submit do so now
	for len(batch) < b.size {
		select {
		case next := <-b.requests:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

func (b *Batcher[In, Out]) answer(ctx context.Context, batch []request[In, Out]) {
	in := make([]In, 0, len(batch))
	for _, r := range batch {
		in = append(in, r.in)
	}
	results := b.process(ctx, in)
	if len(results) != len(batch) {
		panic(fmt.Sprintf("batch: %d results for %d requests", len(results), len(batch)))
	}
	for i, r := range batch {
		r.reply <- results[i]
	}
}
