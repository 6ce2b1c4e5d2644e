package inbox_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/migrations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const window = 24 * time.Hour

// fixture is an inbox in a database of the test's own.
type fixture struct {
	*testing.T
	*inbox.Inbox
	db *postgres.DB
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db, _ := postgrestest.Migrated(t, migrations.Schema)
	return fixture{t, inbox.New(db, window), db}
}

// do runs fn in a transaction that succeeds.
func (b fixture) do(fn func(tx pgx.Tx) error) {
	b.Helper()
	if err := b.db.InTx(b.Context(), fn); err != nil {
		b.Error(err)
	}
}

// record records messages in a transaction of their own.
func (b fixture) record(messages ...inbox.Message) (results []inbox.Result) {
	b.Helper()
	b.do(func(tx pgx.Tx) (err error) {
		results, err = b.Record(b.Context(), tx, messages)
		return err
	})
	return results
}

func (b fixture) want(m inbox.Message, want inbox.Result) {
	b.Helper()
	if got := b.record(m); !slices.Equal(got, []inbox.Result{want}) {
		b.Errorf("results %d, want %d", got, want)
	}
}

// message is one that was created now, by the database's clock.
func (b fixture) message() inbox.Message {
	b.Helper()
	m := inbox.Message{ID: uuid.New()}
	b.do(func(tx pgx.Tx) error {
		return tx.QueryRow(b.Context(), "SELECT now()").Scan(&m.CreatedAt)
	})
	return m
}

func (b fixture) count() (n int) {
	b.Helper()
	b.do(func(tx pgx.Tx) error {
		return tx.QueryRow(b.Context(), "SELECT count(*) FROM processed_messages").Scan(&n)
	})
	return n
}

// TestP5OneOfManyIsTheFirst records one message in twenty transactions at once.
func TestP5OneOfManyIsTheFirst(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	m := b.message()
	var (
		results    [inbox.OutsideWindow + 1]atomic.Int32
		deliveries sync.WaitGroup
	)
	for range 20 {
		deliveries.Go(func() {
			for _, v := range b.record(m) {
				results[v].Add(1)
			}
		})
	}
	deliveries.Wait()
	if first, duplicates := results[inbox.First].Load(), results[inbox.Duplicate].Load(); first != 1 || duplicates != 19 {
		t.Errorf("%d deliveries were the first and %d duplicates, want 1 and 19", first, duplicates)
	}
}

func TestARolledBackMessageIsNewAgain(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	m, failure := b.message(), errors.New("the effect failed")
	for _, outcome := range []error{failure, failure, nil} {
		err := b.db.InTx(t.Context(), func(tx pgx.Tx) error {
			v, err := b.Record(t.Context(), tx, []inbox.Message{m})
			if err != nil || v[0] != inbox.First {
				t.Errorf("result %d, error %v, want the first", v, err)
			}
			return outcome
		})
		if !errors.Is(err, outcome) {
			t.Error(err)
		}
	}
}
