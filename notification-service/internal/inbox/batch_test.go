package inbox_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/notification-service/internal/inbox"
)

func TestABatchHasAResultForEachMessageInOrder(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	known, old, forced := b.message(), b.message(), b.message()
	b.want(known, inbox.First)
	old.CreatedAt = old.CreatedAt.Add(-2 * window)
	forced.CreatedAt, forced.Forced = old.CreatedAt, true
	batch := []inbox.Message{b.message(), known, old, b.message(), forced, {ID: uuid.New()}, known, b.message()}
	batch[6].ID = uuid.Max // the last id of all, and not in the last place
	want := []inbox.Result{
		inbox.First, inbox.Duplicate, inbox.OutsideWindow, inbox.First, inbox.First, inbox.OutsideWindow, inbox.First, inbox.First,
	}
	if got := b.record(batch...); !slices.Equal(got, want) {
		t.Errorf("results %d, want %d", got, want)
	}
	for i, v := range b.record(batch...) {
		if again := map[inbox.Result]inbox.Result{inbox.First: inbox.Duplicate}[want[i]]; again != 0 && v != again {
			t.Errorf("message %d again: result %d, want %d", i, v, again)
		}
	}
}

func TestAnEmptyBatchHasNoResults(t *testing.T) {
	t.Parallel()
	if got := newFixture(t).record(); len(got) != 0 {
		t.Errorf("results %d", got)
	}
}

// TestBatchesInOppositeOrdersDoNotDeadlock: both transactions insert in the order of the ids, so
// neither holds an id that the other one waits for before it.
func TestBatchesInOppositeOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	const rounds, size = 20, 50
	for range rounds {
		batch := make([]inbox.Message, size)
		for i := range batch {
			batch[i] = b.message()
		}
		reversed := slices.Clone(batch)
		slices.Reverse(reversed)
		var both sync.WaitGroup
		first := make(chan int, 2)
		for _, batch := range [][]inbox.Message{batch, reversed} {
			both.Go(func() {
				n := 0
				for _, v := range b.record(batch...) { // a deadlock is an error
					if v == inbox.First {
						n++
					}
				}
				first <- n
			})
		}
		both.Wait()
		if n := <-first + <-first; n != size {
			t.Errorf("%d firsts of %d messages", n, size)
		}
	}
}

// TestP5ABatchWaitsForAnotherThatHasItsMessages. Its result depends on the other one.
func TestP5ABatchWaitsForAnotherThatHasItsMessages(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	shared, own := b.message(), b.message()
	results := make(chan []inbox.Result)
	b.do(func(tx pgx.Tx) error {
		_, err := b.Record(t.Context(), tx, []inbox.Message{shared})
		go func() { results <- b.record(own, shared) }()
		b.awaitLock()
		return err
	})
	if got := <-results; !slices.Equal(got, []inbox.Result{inbox.First, inbox.Duplicate}) {
		t.Errorf("results %d, want a first and a duplicate", got)
	}
}

// awaitLock waits until a statement waits for the lock of another.
func (b fixture) awaitLock() {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	for n := 0; n == 0; {
		err := b.db.InSnapshot(ctx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
		})
		if err != nil {
			b.Fatalf("no statement waits for a lock: %v", err)
		}
	}
}
