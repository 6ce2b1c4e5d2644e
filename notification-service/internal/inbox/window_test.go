package inbox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/notification-service/internal/inbox"
)

// TestP11TheWindowEndsByTheDatabasesClock: now() is constant within a transaction, so the
// limit is exact.
func TestP11TheWindowEndsByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	for age, want := range map[time.Duration]inbox.Result{
		-2 * window:               inbox.First, // a producer's clock that is ahead
		0:                         inbox.First,
		window - time.Microsecond: inbox.First,
		window:                    inbox.OutsideWindow,
		100 * window:              inbox.OutsideWindow,
	} {
		b.do(func(tx pgx.Tx) error {
			var now time.Time
			if err := tx.QueryRow(t.Context(), "SELECT now()").Scan(&now); err != nil {
				return err
			}
			got, err := b.Record(t.Context(), tx, []inbox.Message{{ID: uuid.New(), CreatedAt: now.Add(-age)}})
			if err == nil && got[0] != want {
				t.Errorf("result %d at the age of %s, want %d", got, age, want)
			}
			return err
		})
	}
	if n := b.count(); n != 3 {
		t.Errorf("%d rows, want 3: a message outside the window leaves none", n)
	}
}

func TestAMessageOfUnknownAgeIsOutside(t *testing.T) {
	t.Parallel()
	newFixture(t).want(inbox.Message{ID: uuid.New()}, inbox.OutsideWindow)
}

func TestForceSkipsTheAgeAndNotTheRow(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	m := b.message()
	m.CreatedAt = m.CreatedAt.Add(-2 * window)
	b.want(m, inbox.OutsideWindow)
	m.Forced = true
	b.want(m, inbox.First)
	b.want(m, inbox.Duplicate)
	m.Forced = false
	b.want(m, inbox.Duplicate) // its row is there, however old it is
}

// TestP5WhatIsPrunedIsOutside: a message never becomes new again.
func TestP5WhatIsPrunedIsOutside(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"clocks agree": 0, "the producer's clock is ahead": 4 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t)
			m := b.message()
			m.CreatedAt = m.CreatedAt.Add(ahead)
			b.want(m, inbox.First)
			for hour := range 32 {
				b.prune(1000)
				if v := b.record(m); v[0] == inbox.First {
					t.Errorf("the message is new again after %d hours", hour)
				}
				b.makeOlder(time.Hour)
				m.CreatedAt = m.CreatedAt.Add(-time.Hour)
			}
			if n := b.count(); n != 0 {
				t.Errorf("%d rows are left", n)
			}
		})
	}
}

// TestP5PruningSparesTransactionsThatBeganInsideTheWindow: their now() is the time when they began.
func TestP5PruningSparesTransactionsThatBeganInsideTheWindow(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	m := b.message()
	b.want(m, inbox.First)
	b.makeOlder(window - 10*time.Minute)
	m.CreatedAt = m.CreatedAt.Add(10*time.Minute - window)
	b.do(func(slow pgx.Tx) error {
		var began time.Time // the first statement opens the transaction for the server
		if err := slow.QueryRow(t.Context(), "SELECT now()").Scan(&began); err != nil {
			return err
		}
		b.makeOlder(20 * time.Minute)
		b.prune(10)
		v, err := b.Record(t.Context(), slow, []inbox.Message{m})
		if err == nil && v[0] != inbox.Duplicate {
			t.Errorf("result %d, want a duplicate", v)
		}
		return err
	})
}

// makeOlder makes every row older.
func (b fixture) makeOlder(d time.Duration) {
	b.Helper()
	b.do(func(tx pgx.Tx) error {
		return postgres.Write(b.Context(), tx, "", "UPDATE processed_messages SET processed_at = processed_at - @age * interval '1 second'", postgres.Args{"age": d.Seconds()})
	})
}

func (b fixture) prune(limit int) int {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	n, err := b.Prune(ctx, limit)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func TestPruneTakesSmallBatchesOfOldRowsOnly(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	for range 5 {
		b.want(b.message(), inbox.First)
	}
	b.makeOlder(window + time.Hour/2)
	if n := b.prune(10); n != 0 {
		t.Errorf("pruned %d rows within the margin", n)
	}
	b.makeOlder(time.Hour)
	young := b.message()
	b.want(young, inbox.First)
	for _, want := range []int{2, 2, 1, 0} {
		if n := b.prune(2); n != want {
			t.Errorf("pruned %d, want %d", n, want)
		}
	}
	b.want(young, inbox.Duplicate)
}

// TestPruneSkipsLockedRows: another replica that prunes has locked its rows.
func TestPruneSkipsLockedRows(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	for range 3 {
		b.want(b.message(), inbox.First)
	}
	b.makeOlder(2 * window)
	b.do(func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "SELECT FROM processed_messages LIMIT 1 FOR UPDATE")
		if n := b.prune(10); n != 2 {
			t.Errorf("pruned %d, want the 2 that are not locked", n)
		}
		return err
	})
}

func TestKeepPrunedPrunesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.want(b.message(), inbox.First)
	b.makeOlder(2 * window)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	ended := make(chan error)
	go func() { ended <- b.KeepPruned(ctx) }()
	for ctx.Err() == nil && b.count() > 0 {
		continue
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := b.count(); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// TestPruneReadsTheOldEndOfItsIndex however many rows there are.
func TestPruneReadsTheOldEndOfItsIndex(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.do(func(tx pgx.Tx) error {
		return postgres.Write(t.Context(), tx, "", `INSERT INTO processed_messages (message_id, processed_at)
			SELECT gen_random_uuid(), now() - n * interval '1 minute' FROM generate_series(1, 20000) n`, nil)
	})
	b.do(func(tx pgx.Tx) error { return postgres.Write(t.Context(), tx, "", "ANALYZE processed_messages", nil) })
	var lines []string
	b.do(func(tx pgx.Tx) (err error) {
		args := postgres.Args{"age": window.Seconds(), "limit": 100}
		lines, err = postgres.Read(t.Context(), tx, "EXPLAIN "+inbox.PruneSQL, args, pgx.RowTo[string])
		return err
	})
	plan := strings.Join(lines, "\n")
	if !strings.Contains(plan, "processed_messages_age") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Sort") {
		t.Errorf("the plan is\n%s", plan)
	}
}
