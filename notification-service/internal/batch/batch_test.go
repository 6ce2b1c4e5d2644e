package batch_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/notification-service/internal/batch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a batcher whose batches wait for finish. It runs in a bubble of
// synctest, where synctest.Wait returns when all submitted requests wait.
type fixture struct {
	*testing.T
	batcher *batch.Batcher[int, string]
	began   chan []int
	finish  chan struct{}
	stop    func()
	users   sync.WaitGroup
}

func withBatcher(t *testing.T, size, workers int, test func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{T: t, began: make(chan []int, 100), finish: make(chan struct{})}
		w.batcher = batch.New(size, func(_ context.Context, in []int) (out []string) {
			w.began <- slices.Clone(in)
			<-w.finish
			for _, n := range in {
				out = append(out, strconv.Itoa(n))
			}
			return out
		})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := w.batcher.Run(ctx, workers); err != nil {
				t.Error(err)
			}
		})
		w.stop = func() { stop(); synctest.Wait() }
		test(w)
		stop()
		close(w.finish)
		running.Wait()
		w.users.Wait()
	})
}

// submit wants the result that belongs to each request.
func (w *fixture) submit(requests ...int) {
	for _, n := range requests {
		w.users.Go(func() {
			if got, err := w.batcher.Do(w.Context(), n); err != nil || got != strconv.Itoa(n) {
				w.Errorf("request %d has the result %q, error %v", n, got, err)
			}
		})
	}
	synctest.Wait()
}

func (w *fixture) wantBatch(want ...int) {
	w.Helper()
	select {
	case got := <-w.began:
		if slices.Sort(got); !slices.Equal(got, want) {
			w.Errorf("the batch is %v, want %v", got, want)
		}
	default:
		w.Errorf("no batch has begun, want %v", want)
	}
}

func (w *fixture) finishBatch() {
	w.finish <- struct{}{}
	synctest.Wait()
}

func TestARequestIsProcessedAtOnceWhenNoBatchIsRunning(t *testing.T) {
	t.Parallel()
	withBatcher(t, 10, 2, func(w *fixture) {
		w.submit(1)
		w.wantBatch(1)
		w.finishBatch()
		w.submit(2)
		w.wantBatch(2)
	})
}

// TestABatchWaitsForTheOneBefore although a worker is free, so that it becomes larger.
func TestABatchWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	withBatcher(t, 10, 2, func(w *fixture) {
		w.submit(1)
		w.wantBatch(1)
		w.submit(2)
		w.submit(3)
		time.Sleep(batch.MaxWait - 1)
		w.finishBatch()
		w.wantBatch(2, 3)
	})
}

// TestASlowBatchDelaysOthersOnlyForAMoment: then the second worker takes the next batch.
func TestASlowBatchDelaysOthersOnlyForAMoment(t *testing.T) {
	t.Parallel()
	withBatcher(t, 10, 2, func(w *fixture) {
		w.submit(1)
		w.wantBatch(1)
		w.submit(2, 3)
		time.Sleep(batch.MaxWait)
		synctest.Wait()
		w.wantBatch(2, 3)
	})
}

func TestWaitingRequestsMakeOneBatch(t *testing.T) {
	t.Parallel()
	withBatcher(t, 4, 1, func(w *fixture) {
		w.submit(1)
		w.wantBatch(1)
		w.submit(2, 3, 4)
		w.finishBatch()
		w.wantBatch(2, 3, 4)
		w.submit(5, 6, 7, 8, 9, 10)
		w.finishBatch()
		first := <-w.began
		w.finishBatch()
		second := <-w.began
		if all := slices.Sorted(slices.Values(slices.Concat(first, second))); len(first) != 4 || !slices.Equal(all, []int{5, 6, 7, 8, 9, 10}) {
			w.Errorf("the batches are %v and %v, want 4 and the other 2", first, second)
		}
	})
}

func TestDoEndsWithItsContext(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	withBatcher(t, 4, 1, func(w *fixture) {
		w.submit(1) // keeps the worker busy
		ctx, cancel := context.WithCancelCause(w.Context())
		w.users.Go(func() {
			if _, err := w.batcher.Do(ctx, 2); !errors.Is(err, enough) {
				w.Errorf("error %v, want %v", err, enough)
			}
		})
		synctest.Wait()
		cancel(enough)
		synctest.Wait()
		w.wantBatch(1)
		w.finishBatch()
		w.submit(3)
		w.wantBatch(3) // nothing was done for 2
	})
}

func TestARequestThatWasTakenGetsItsResult(t *testing.T) {
	t.Parallel()
	withBatcher(t, 4, 1, func(w *fixture) {
		ctx, cancel := context.WithCancel(w.Context())
		w.users.Go(func() {
			if got, err := w.batcher.Do(ctx, 1); got != "1" || err != nil {
				w.Errorf("result %q, error %v: the request was processed", got, err)
			}
		})
		synctest.Wait()
		cancel()
		w.stop()
		w.finishBatch()
	})
}

func TestNothingIsTakenAfterRun(t *testing.T) {
	t.Parallel()
	withBatcher(t, 4, 2, func(w *fixture) {
		w.stop()
		if _, err := w.batcher.Do(w.Context(), 1); !errors.Is(err, batch.ErrStopped) {
			w.Errorf("error %v, want %v", err, batch.ErrStopped)
		}
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(w.Context())
		cancel(enough)
		for range 100 { // both have ended: the error is the one of the caller
			if _, err := w.batcher.Do(ctx, 1); !errors.Is(err, enough) {
				w.Fatalf("error %v, want %v", err, enough)
			}
		}
	})
}

func TestManyRequestsGetTheirOwnResults(t *testing.T) {
	t.Parallel()
	b := batch.New(16, func(_ context.Context, in []int) (out []int) {
		for _, n := range in {
			out = append(out, 2*n)
		}
		return out
	})
	ctx, stop := context.WithCancel(t.Context())
	var running, users sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx, 3) })
	for n := range 2000 {
		users.Go(func() {
			if got, err := b.Do(t.Context(), n); got != 2*n || err != nil {
				t.Errorf("request %d has the result %d, error %v", n, got, err)
			}
		})
	}
	users.Wait()
	stop()
	running.Wait()
}
