// Package batch processes the requests of many goroutines together. A transaction for 60
// messages costs little more than one for a single message.
//
// While no batch is running, a request is processed at once. Requests that come while a batch is
// running make the next batch, so batches grow with the load. If another worker is free, the
// next batch waits at most [maxWait] for the one before.
package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Batcher processes requests of type In, each with a result of type Out.
type Batcher[In, Out any] struct {
	size     int
	process  func(ctx context.Context, batch []In) []Out
	requests chan request[In, Out]
	turn     chan struct{} // holds one token: the worker that takes it may begin a batch
	stopped  chan struct{}
}

// maxWait is how long a batch waits for the one before. A transaction takes a few milliseconds,
// unless it waits for a lock.
const maxWait = 10 * time.Millisecond

// ErrStopped says that the request was not processed: the batcher has ended.
var ErrStopped = errors.New("nothing is processed any more")

type request[In, Out any] struct {
	in    In
	reply chan<- Out
}

// New returns a batcher whose batches have at most size requests. process must return one result
// for each request, in their order, within a bounded time.
func New[In, Out any](size int, process func(ctx context.Context, batch []In) []Out) *Batcher[In, Out] {
	b := &Batcher[In, Out]{
		size: size, process: process,
		requests: make(chan request[In, Out]), turn: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	b.turn <- struct{}{}
	return b
}

// Do submits a request and waits for its result. It returns an error only if ctx or Run ended
// before a worker took the request. Then nothing was done.
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

// Run processes batches until ctx ends, in this number of workers. Call it once. process gets
// ctx.
func (b *Batcher[In, Out]) Run(ctx context.Context, workers int) error {
	defer close(b.stopped)
	var running errgroup.Group
	for range workers {
		running.Go(func() error {
			for b.processNext(ctx) {
			}
			return nil
		})
	}
	return running.Wait()
}

// processNext waits for its turn and for a request, and processes a batch. It returns false
// when ctx has ended.
func (b *Batcher[In, Out]) processNext(ctx context.Context) bool {
	select {
	case <-b.turn:
	case <-ctx.Done():
		return false
	}
	batch := b.collect(ctx)
	if len(batch) == 0 {
		return false
	}
	next := sync.OnceFunc(func() { b.turn <- struct{}{} })
	defer next()
	defer time.AfterFunc(maxWait, next).Stop()
	b.processBatch(ctx, batch)
	return true
}

// collect waits for a first request, and takes those that wait already.
func (b *Batcher[In, Out]) collect(ctx context.Context) (batch []request[In, Out]) {
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

func (b *Batcher[In, Out]) processBatch(ctx context.Context, batch []request[In, Out]) {
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
