package outboxtest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/outboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func event(topic, id string, version int) outbox.Event {
	return outbox.Event{Topic: topic, Aggregate: "order", AggregateID: id, Version: version, Payload: []byte(topic)}
}

func topics(events []outbox.Event) (topics []string) {
	for _, e := range events {
		topics = append(topics, e.Topic)
	}
	return topics
}

func appendAll(t *testing.T, pool *pgxpool.Pool, events ...outbox.Event) {
	t.Helper()
	must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return outbox.Append(t.Context(), tx, events...) }))
}

// TestAppendedSeesItsTransactionOnly, also what its savepoints have appended and kept.
func TestAppendedSeesItsTransactionOnly(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	appendAll(t, pool, event("earlier", "1", 1))
	must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		appendAll(t, pool, event("meanwhile", "2", 1))
		must(t, outbox.Append(t.Context(), tx, event("first", "3", 1)))
		must(t, pgx.BeginFunc(t.Context(), tx, func(kept pgx.Tx) error {
			return outbox.Append(t.Context(), kept, event("kept", "3", 2))
		}))
		undone, err := tx.Begin(t.Context())
		must(t, err)
		must(t, outbox.Append(t.Context(), undone, event("undone", "3", 3)))
		must(t, undone.Rollback(t.Context()))
		if got := topics(outboxtest.Appended(t, tx)); !slices.Equal(got, []string{"first", "kept"}) {
			t.Errorf("appended %v", got)
		}
		return nil
	}))
}

// TestDrainSendsWhatIsDue in the order of the versions, and leaves out what is superseded.
func TestDrainSendsWhatIsDue(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	newest, later := event("newest", "1", 3), event("later", "2", 1)
	newest.Supersedes, later.Delay = true, time.Hour
	var events []outbox.Event
	for version := range 150 { // more than one batch, each waits for the one before it
		events = append(events, event("in order", "3", 150-version))
	}
	appendAll(t, pool, append(events, event("oldest", "1", 1), event("older", "1", 2), newest, later, event("failed", "5", 1))...)
	var got []outbox.Event
	_, err := pool.Exec(t.Context(), "UPDATE outbox_queue SET failed_at = now(), available_at = 'infinity' WHERE aggregate_id = '5'")
	must(t, err)
	if outboxtest.RequireAppended(t, pool, "order", "5", "failed"); outboxtest.RequireAppended(t, pool, "order", "2", "later")[0].Delay != time.Hour {
		t.Error("the delay is not an hour")
	}
	sent, err := outboxtest.Drain(t.Context(), pool, func(_ context.Context, e outbox.Event) error {
		if got = append(got, e); len(got) == 1 {
			appendAll(t, pool, event("appended meanwhile", "4", 1))
		}
		return nil
	})
	if must(t, err); sent != 152 || len(got) != 152 {
		t.Errorf("sent %d, called for %d, want 152", sent, len(got))
	}
	version := 0
	for _, e := range got {
		if e.AggregateID != "3" {
			continue
		}
		if version++; e.Version != version {
			t.Fatalf("got version %d, want %d", e.Version, version)
		}
	}
	if got := topics(got); slices.Contains(got, "older") || slices.Contains(got, "oldest") || slices.Contains(got, "later") || slices.Contains(got, "failed") ||
		!slices.Contains(got, "newest") || !slices.Contains(got, "appended meanwhile") {
		t.Errorf("sent %v", got)
	}
}

// TestDrainStopsAtAnError, and the next call begins with the same event.
func TestDrainStopsAtAnError(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	appendAll(t, pool, event("a", "1", 1), event("b", "2", 1), event("c", "3", 1))
	outboxtest.RequireAppended(t, pool, "order", "4")
	refused := errors.New("refused")
	sent, err := outboxtest.Drain(t.Context(), pool, func(_ context.Context, e outbox.Event) error {
		if e.Topic == "b" {
			return refused
		}
		return nil
	})
	if sent != 1 || !errors.Is(err, refused) {
		t.Errorf("sent %d, error %v", sent, err)
	}
	var got []outbox.Event
	_, err = outboxtest.Drain(t.Context(), pool, func(_ context.Context, e outbox.Event) error {
		got = append(got, e)
		return nil
	})
	committed := outboxtest.RequireAppended(t, pool, "order", "1", "a") // which is published
	if must(t, err); committed[0].Version != 1 || !slices.Equal(topics(got), []string{"b", "c"}) {
		t.Errorf("then sent %v", topics(got))
	}
}

func TestDrainWithoutTablesSaysMigrate(t *testing.T) {
	t.Parallel()
	if _, err := outboxtest.Drain(t.Context(), dbtest.Pool(t, dbtest.URL(t)), nil); !errors.Is(err, outbox.ErrNoSchema) {
		t.Errorf("error %v", err)
	}
}

var must = dbtest.Must // many lines have it
