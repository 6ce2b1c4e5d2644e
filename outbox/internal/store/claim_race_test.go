package store

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// repeatableRead makes the database's default isolation level wrong for the store.
func (f fixture) repeatableRead() fixture {
	return f.with(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
	})
}

// TestATransactionOfAnOperatorStatesItsSettings, whatever the defaults are.
func TestATransactionOfAnOperatorStatesItsSettings(t *testing.T) {
	t.Parallel()
	f := newFixture(t).repeatableRead().with(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
		c.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	})
	var got string
	must(t, f.store.InTx(t.Context(), func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), `SELECT concat_ws(', ', current_setting('transaction_isolation'),
			current_setting('transaction_read_only'), current_setting('synchronous_commit'))`).Scan(&got)
	}))
	if want := "read committed, off, on"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTheClaimLockSerializesClaims: a claim cannot see another one that is not committed yet, so it
// waits for it, and then sees it, whatever the default isolation level is. Without the claim
// lock both would take the event.
func TestTheClaimLockSerializesClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t).repeatableRead()
	ids := f.appendMany(1)
	var got [2][]uuid.UUID
	var ends []func()
	f.withPausedWrites("AFTER INSERT ON outbox_claims FOR EACH ROW", func() {
		for i := range got {
			ends = append(ends, f.startUntilBlocked(i+1, func() error {
				c, err := f.store.Claim(t.Context(), "test", 10, lease)
				got[i] = idsOf(c)
				return err
			}))
		}
	})
	for _, end := range ends {
		end()
	}
	if all := slices.Concat(got[:]...); !slices.Equal(all, ids) {
		t.Errorf("two claims took %v, want %v once", all, ids)
	}
}

// TestAnApplicationsLocksStopNoRelay, although some have the numbers of the tables.
func TestAnApplicationsLocksStopNoRelay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	f.inTx("SELECT pg_advisory_xact_lock(cast(oid AS bigint)) FROM pg_class WHERE relname IN ('outbox_claims', 'outbox_topics')", func() {
		c := f.wantClaimed(ids...)
		f.settle(Settlement{Token: c.Token, End: true, Paused: map[string]string{"x": "a test"}})
	})
}

// TestALeaseBeginsAfterTheWaitForOtherClaims: a claim that waited two seconds for the claim
// lock still has its whole lease.
func TestALeaseBeginsAfterTheWaitForOtherClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(1)
	var claimed func()
	f.inTx(ClaimLockSQL, func() {
		claimed = f.startUntilBlocked(1, func() error {
			_, err := f.store.Claim(t.Context(), "x", 10, 3*time.Second)
			return err
		})
		f.exec("SELECT pg_sleep(2)")
	})
	claimed()
	if left := read[float64](f, "SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM outbox_claims")[0]; left < 2.2 {
		t.Errorf("%.1f s of a lease of 3 s are left", left)
	}
}

func TestAnExpiredClaimStaysWhileItsHolderSettles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	c := f.claim(10)
	f.endLeases()
	f.inTx("SELECT FROM outbox_claims WHERE token = $1 FOR UPDATE", func() { f.wantClaimed() }, c.Token)
	f.wantClaimed(ids...)
}

// TestASettlementWaitsForAClaimThatEndsItsLease: the other claim has deleted the lease and is about
// to commit. So the settlement holds nothing, and must not reschedule what the other relay has now.
func TestASettlementWaitsForAClaimThatEndsItsLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	c := f.claim(10)
	f.endLeases()
	var claimed, settled func()
	f.withPausedWrites("AFTER INSERT ON outbox_claims FOR EACH ROW", func() {
		claimed = f.startUntilBlocked(1, func() error { _, err := f.store.Claim(t.Context(), "x", 10, lease); return err })
		settled = f.startUntilBlocked(2, func() error {
			if held := f.reschedule(c, Failure{ID: ids[0], Delay: time.Hour}); held != 0 {
				t.Errorf("a lost lease held %d events", held)
			}
			return nil
		})
	})
	claimed()
	settled()
	f.wantStatus("in_progress", ids...)
}

// TestAClaimThatCannotReadItsEventsIsReleased: a lock of the log delays the answer with the events
// until the relay gives up. Without the release, they would wait for the end of the lease.
func TestAClaimThatCannotReadItsEventsIsReleased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.inTx("LOCK TABLE outbox_events IN ACCESS EXCLUSIVE MODE", func() {
		claimed := f.startUntilBlocked(1, func() error {
			if _, err := f.store.Claim(ctx, "cannot read", 10, lease); err == nil {
				return errors.New("the claim has read events of a locked table")
			}
			return nil
		})
		cancel()
		claimed()
	})
	f.wantClaimed(ids...)
}

// TestInTxGivesUp when the server does not answer, although fn has no deadline.
func TestInTxGivesUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := f.store.InTx(ctx, func(tx pgx.Tx) error {
		cancel()
		_, err := tx.Exec(context.Background(), "SELECT pg_sleep(60)")
		return err
	})
	if err == nil {
		t.Error("a transaction without a deadline")
	}
	f.wantClaimed() // the pool has other connections
}
