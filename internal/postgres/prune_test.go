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

// TestKeepPrunedDeletesAllBatchesOnceAMinute, and waits a minute after an error. It uses virtual time.
func TestKeepPrunedDeletesAllBatchesOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Second)
		defer cancel()
		const away = -1
		left := []int{1000, 1000, 7, 0, away, 1000, 0} // two full batches, a rest; nothing; an error; a full one and nothing
		var calls []time.Duration
		err := postgres.KeepPruned(ctx, "test", func(context.Context, int) (int, error) {
			calls = append(calls, time.Since(start))
			n := left[0]
			left = left[1:]
			if n == away {
				return 0, errors.New("the database is away")
			}
			return n, nil
		})
		want := []time.Duration{0, 0, 0, time.Minute, 2 * time.Minute, 3 * time.Minute, 3 * time.Minute}
		if err != nil || !slices.Equal(calls, want) {
			t.Errorf("error %v, called at %v, want %v", err, calls, want)
		}
	})
}
