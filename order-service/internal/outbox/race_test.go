package outbox_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// TestP7RelaysRacing lets six relays race for real, each with outcomes by chance,
// until everything is published.
func TestP7RelaysRacing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	k := broker{versions: map[uuid.UUID]version{}, first: map[uuid.UUID][]int{}}
	const orders, versions = 40, 5
	for range orders {
		aggregate := uuid.New()
		for number := 1; number <= versions; number++ {
			k.versions[b.append(aggregate, number)[0]] = version{aggregate, number}
		}
	}
	var relays sync.WaitGroup
	for range 6 {
		relays.Go(func() {
			for b.unsettled() > 0 {
				racePass(b, &k)
			}
		})
	}
	relays.Wait()
	if err := k.outOfOrder(nil); err != nil {
		t.Error(err)
	}
	if len(k.first) != orders {
		t.Errorf("%d orders appeared, want %d", len(k.first), orders)
	}
}

// unsettled counts what is neither published nor discarded.
func (b bench) unsettled() (n int) {
	b.Helper()
	b.read(&n, "SELECT count(*) FROM outbox_events WHERE status NOT IN ('published', 'discarded')")
	return n
}

// racePass is one pass of a relay to which everything happens. Leases are short, so
// that they end while their holders are still at it.
func racePass(b bench, k *broker) {
	c, err := b.store.Claim(b.Context(), "race", 1+rand.IntN(20), time.Duration(rand.IntN(20))*time.Millisecond)
	if err != nil {
		b.Error(err)
		return
	}
	var confirmed []uuid.UUID
	for _, e := range c.Events {
		switch rand.IntN(4) {
		case 0, 1:
			k.publish(e.ID)
			confirmed = append(confirmed, e.ID)
		case 2:
			setback := outbox.Setback{ID: e.ID, Delay: time.Duration(rand.IntN(20)) * time.Millisecond, Spends: true, Code: "refused"}
			if _, err := b.store.Reschedule(b.Context(), c.Token, []outbox.Setback{setback}); err != nil {
				b.Error(err)
			}
		default: // forgotten: the lease ends by itself
		}
	}
	if err := b.store.MarkPublished(b.Context(), confirmed); err != nil {
		b.Error(err)
	}
}

// TestNothingStaysParkedWhateverRaces lets appenders, relays that give up and learn
// of their confirms late, operators and a janitor loose on few orders. None of them
// may fail, with a deadlock for one; and nothing may be parked behind nothing.
func TestNothingStaysParkedWhateverRaces(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var appenders, others sync.WaitGroup
	for range 4 {
		order := uuid.New()
		appenders.Go(func() {
			for version := 1; version <= 60; version++ {
				b.append(order, version)
			}
		})
	}
	appended := make(chan struct{})
	for _, step := range []func(bench){giveUp, giveUp, decide, decide, park, findNoRoute, findARoute} {
		others.Go(func() {
			for {
				select {
				case <-appended:
					return
				default:
					step(b)
				}
			}
		})
	}
	appenders.Wait()
	close(appended)
	others.Wait()
	b.wantNone(astray)
	b.drain()
}

// drain decides, and publishes what that leaves.
func (b bench) drain() {
	b.Helper()
	b.endLeases()
	decide(b)
	for c := b.claimAll(); len(c.Events) > 0; c = b.claimAll() {
		if err := b.store.MarkPublished(b.Context(), idsOf(c)); err != nil {
			b.Fatal(err)
		}
	}
	if n := b.unsettled(); n > 0 {
		b.Errorf("%d events are never published", n)
	}
}

// giveUp fails what it claims, and may learn afterwards that the broker has it.
func giveUp(b bench) {
	c, err := b.store.Claim(b.Context(), "race", 1+rand.IntN(5), lease)
	if err != nil {
		b.Error(err)
	}
	for _, e := range c.Events {
		if _, _, err := b.store.Fail(b.Context(), c.Token, outbox.Setback{ID: e.ID, Code: "refused"}); err != nil {
			b.Error(err)
		}
	}
	if rand.IntN(2) == 0 {
		if err := b.store.MarkPublished(b.Context(), idsOf(c)); err != nil {
			b.Error(err)
		}
	}
}

// decide replays or discards what failed.
func decide(b bench) {
	var failed []uuid.UUID
	b.read(&failed, "SELECT id FROM outbox_events WHERE status = 'failed'")
	decision := b.replay
	if rand.IntN(4) == 0 {
		decision = b.discard
	}
	if err := decision(failed...); err != nil {
		b.Error(err)
	}
}

func park(b bench) {
	if _, err := b.store.ParkBlocked(b.Context(), 100); err != nil {
		b.Error(err)
	}
}

// claimAll claims with what waits for a route.
func (b bench) claimAll() outbox.Claim {
	b.Helper()
	b.bringBack(1000)
	return b.claim(100)
}

// findNoRoute gets back from the broker what it claims.
func findNoRoute(b bench) {
	c, err := b.store.Claim(b.Context(), "race", 1+rand.IntN(5), lease)
	if err != nil {
		b.Error(err)
	}
	var back []outbox.Setback
	for _, e := range c.Events {
		back = append(back, outbox.Setback{ID: e.ID, Delay: time.Millisecond, Code: "unroutable"})
	}
	if _, err := b.store.Reschedule(b.Context(), c.Token, back); err != nil {
		b.Error(err)
	}
}

func findARoute(b bench) {
	if _, err := b.store.BringBack(b.Context(), "order.created", 1+rand.IntN(5)); err != nil {
		b.Error(err)
	}
}
