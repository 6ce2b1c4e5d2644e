package outbox_test

import (
	"testing"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// newRepeatableReadFixture opens an outbox in a database where REPEATABLE READ is the default.
func newRepeatableReadFixture(t *testing.T) fixture {
	t.Helper()
	f := newFixture(t)
	f.exec("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = ''repeatable read''', current_database()); END $$")
	db, err := postgres.Open(t.Context(), f.url, 10)
	must(t, err)
	t.Cleanup(db.Close)
	f.db, f.store = db, outbox.NewStore(db)
	return f
}

// TestADeletePromotesAnEventBeingParkedWithDefaultRepeatableRead: with the snapshot of its first
// statement, MarkPublished would not see the parked event, and would not make it due.
func TestADeletePromotesAnEventBeingParkedWithDefaultRepeatableRead(t *testing.T) {
	t.Parallel()
	newRepeatableReadFixture(t).wantEventBeingParkedPromoted()
}

// TestClaimsShareNoEventWithDefaultRepeatableRead: the second claim waits for the first one, and
// then has to see it.
func TestClaimsShareNoEventWithDefaultRepeatableRead(t *testing.T) {
	t.Parallel()
	f := newRepeatableReadFixture(t)
	f.appendMany(1)
	var first, second func()
	var claims [2]outbox.Claim
	claim := func(i int) func() error {
		return func() (err error) { claims[i], err = f.store.Claim(t.Context(), "x", 10, lease); return err }
	}
	f.withPausedWrites("INSERT ON outbox_claims", func() {
		first = f.startUntilBlocked(1, claim(0))
		second = f.startUntilBlocked(2, claim(1))
	})
	first()
	second()
	if n := len(claims[0].Events) + len(claims[1].Events); n != 1 {
		t.Errorf("%d claims have the event, want 1", n)
	}
}
