package postgres_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/internal/postgres"
)

// TestKeepPrunedDeletesAllBatchesOnceAMinute uses virtual time.
func TestKeepPrunedDeletesAllBatchesOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Second)
		defer cancel()
		left := []int{1000, 1000, 7, 0, 1000, 0} // two full batches, a rest; nothing; a full one and nothing
		var calls []time.Duration
		err := postgres.KeepPruned(ctx, "test", func(context.Context, int) (int, error) {
			calls = append(calls, time.Since(start))
			n := left[0]
			left = left[1:]
			return n, nil
		})
		want := []time.Duration{0, 0, 0, time.Minute, 2 * time.Minute, 2 * time.Minute}
		if err != nil || !slices.Equal(calls, want) {
			t.Errorf("error %v, called at %v, want %v", err, calls, want)
		}
	})
}

func TestKeepPrunedWaitsAMinuteAfterAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Second)
		defer cancel()
		calls := 0
		err := postgres.KeepPruned(ctx, "test", func(context.Context, int) (int, error) {
			calls++
			return 0, errors.New("the database is away")
		})
		if err != nil || calls != 2 {
			t.Errorf("error %v after %d calls, want none and 2", err, calls)
		}
	})
}
