package outbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/test/servers"
)

func TestClaimersNeverShareAnEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	want := f.appendMany(10)

	var (
		mu       sync.Mutex
		claimed  []uuid.UUID
		claimers sync.WaitGroup
	)
	for range 3 {
		claimers.Go(func() {
			for {
				c, err := f.store.Claim(t.Context(), "test", 2, lease)
				if err != nil {
					t.Error(err)
				}
				if len(c.Events) == 0 {
					return
				}
				mu.Lock()
				claimed = append(claimed, idsOf(c)...)
				mu.Unlock()
			}
		})
	}
	claimers.Wait()
	slices.SortFunc(claimed, compareIDs)
	slices.SortFunc(want, compareIDs)
	if !slices.Equal(claimed, want) {
		t.Errorf("claimed %v, want each of %v once", claimed, want)
	}
}

// TestTheTurnstileSerializesClaims: a claim cannot see another one that is not committed yet, so it
// waits for it. Without the turnstile both would take the event.
func TestTheTurnstileSerializesClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	var got [2][]uuid.UUID
	var ends []func()
	f.withPausedWrites("INSERT ON outbox_claims", func() {
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

// TestALeaseBeginsAfterTheWaitForOtherClaims: a claim that waited two seconds at the turnstile
// still has its whole lease.
func TestALeaseBeginsAfterTheWaitForOtherClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(1)
	var claimed func()
	err := f.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		must(t, tx.Gorm(t.Context()).Exec("SELECT pg_advisory_xact_lock(hashtext('outbox_claims'))").Error)
		claimed = f.startUntilBlocked(1, func() error {
			_, err := f.store.Claim(t.Context(), "x", 10, 3*time.Second)
			return err
		})
		return tx.Gorm(t.Context()).Exec("SELECT pg_sleep(2)").Error
	})
	must(t, err)
	claimed()
	var left float64
	f.read(&left, "SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM outbox_claims")
	if left < 2.5 {
		t.Errorf("%.1f s of a lease of 3 s are left", left)
	}
}

func TestP12AnEventOfACrashedClaimIsClaimedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	first := f.claim(10)
	if again := f.claim(10); len(again.Events) != 0 {
		t.Fatalf("claimed %v although another claim holds it", idsOf(again))
	}
	f.endLeases()
	second := f.claim(10)
	if !slices.Equal(idsOf(second), ids) {
		t.Errorf("after the lease ended, claimed %v, want %v", idsOf(second), ids)
	}
	if first.Token == second.Token {
		t.Error("two claims have the same token")
	}
}

func TestAnExpiredClaimStaysWhileItsHolderSettles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(1)
	c := f.claim(10)
	f.endLeases()
	must(t, f.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		must(t, tx.Gorm(t.Context()).Exec("SELECT FROM outbox_claims WHERE token = ? FOR UPDATE", c.Token).Error)
		if got := f.claim(10).Events; len(got) != 0 {
			t.Errorf("claimed %d events while their holder settles them", len(got))
		}
		return nil
	}))
	if got := f.claim(10).Events; len(got) != 1 {
		t.Errorf("claimed %d events afterwards, want 1", len(got))
	}
}

// TestAVanishedRelayDoesNotBlockOtherClaims: the answer with the events is much longer than what
// the server can send to a client that reads nothing.
func TestAVanishedRelayDoesNotBlockOtherClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	proxy, through := servers.ProxyFor(t, f.url)
	db, err := postgres.Open(t.Context(), through, 1)
	must(t, err)
	defer db.Close()
	f.exec(appendLargeSQL, false, 40)
	last := f.appendMany(1)
	vanishing, vanish := context.WithCancel(t.Context())
	defer vanish()
	f.withPausedWrites("INSERT ON outbox_claims", func() {
		f.startUntilBlocked(1, func() error {
			_, err := outbox.NewStore(db).Claim(vanishing, "vanishes", 40, lease)
			return err
		})
		proxy.Stall()
	})
	deadline, end := context.WithTimeout(t.Context(), 5*time.Second)
	defer end()
	claim, err := f.store.Claim(deadline, "test", 40, lease)
	if got := idsOf(claim); !slices.Equal(got, last) || err != nil {
		t.Errorf("claimed %v, error %v, want %v", got, err, last)
	}
}

// TestAClaimThatCannotReadItsEventsIsReleased: a lock of the log delays the answer with the events
// until the relay gives up. Without the release, they would wait for the end of the lease.
func TestAClaimThatCannotReadItsEventsIsReleased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	must(t, f.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		must(t, tx.Gorm(t.Context()).Exec("LOCK TABLE outbox_events IN ACCESS EXCLUSIVE MODE").Error)
		claimed := f.startUntilBlocked(1, func() error {
			if _, err := f.store.Claim(ctx, "cannot read", 10, lease); err == nil {
				return errors.New("the claim has read events of a locked table")
			}
			return nil
		})
		cancel()
		claimed()
		return nil
	}))
	if got := idsOf(f.claim(10)); !slices.Equal(got, ids) {
		t.Errorf("claimed %v, want %v", got, ids)
	}
}

// TestAClaimWhoseCommitHasNoReplyIsReleased: the relay does not know whether it holds the events.
// Without the release, they would wait for the end of the lease.
func TestAClaimWhoseCommitHasNoReplyIsReleased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	proxy, through := servers.ProxyFor(t, f.url)
	db, err := postgres.Open(t.Context(), through, 1)
	must(t, err)
	defer db.Close()
	store := outbox.NewStore(db)
	_, err = store.Claim(t.Context(), "prepares the statements", 10, lease)
	must(t, err)
	ids := f.appendMany(1)
	var dropped atomic.Bool
	proxy.DropReply(func([]byte) bool { return dropped.CompareAndSwap(false, true) })
	if claim, err := store.Claim(t.Context(), "gets no reply", 10, lease); err == nil {
		t.Errorf("claimed %v without a reply", idsOf(claim))
	}
	if got := idsOf(f.claim(10)); !slices.Equal(got, ids) {
		t.Errorf("claimed %v, want %v", got, ids)
	}
}
