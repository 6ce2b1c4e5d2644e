package inbox_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/migrations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newInbox(t *testing.T) *postgres.DB {
	t.Helper()
	db, _ := servertest.Migrated(t, postgres.Migrations{Files: migrations.Files})
	return db
}

// TestP5OneOfManyIsTheFirst records one message in eight transactions at once.
func TestP5OneOfManyIsTheFirst(t *testing.T) {
	t.Parallel()
	db, id := newInbox(t), uuid.New()
	var (
		firsts     atomic.Int32
		deliveries sync.WaitGroup
	)
	for range 8 {
		deliveries.Go(func() {
			err := db.InTx(t.Context(), func(tx *postgres.Tx) error {
				first, err := inbox.Record(t.Context(), tx, id)
				if first {
					firsts.Add(1)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	deliveries.Wait()
	if n := firsts.Load(); n != 1 {
		t.Errorf("%d deliveries were the first, want one", n)
	}
}

func TestARolledBackMessageIsNewAgain(t *testing.T) {
	t.Parallel()
	db, id := newInbox(t), uuid.New()
	failure := errors.New("the effect failed")
	for _, outcome := range []error{failure, failure, nil} {
		err := db.InTx(t.Context(), func(tx *postgres.Tx) error {
			first, err := inbox.Record(t.Context(), tx, id)
			if err != nil || !first {
				t.Errorf("first %t, error %v, want the first", first, err)
			}
			return outcome
		})
		if !errors.Is(err, outcome) {
			t.Error(err)
		}
	}
}
