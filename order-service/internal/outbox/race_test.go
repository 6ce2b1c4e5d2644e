package outbox_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// TestP7RelaysRacing runs six relays at the same time, with random outcomes, until all events are
// published.
func TestP7RelaysRacing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := broker{versions: map[uuid.UUID]version{}, first: map[uuid.UUID][]int{}}
	const orders, versions = 40, 5
	for range orders {
		aggregate := uuid.New()
		for number := 1; number <= versions; number++ {
			b.versions[f.append(aggregate, number)[0]] = version{aggregate, number}
		}
	}
	var relays sync.WaitGroup
	for range 6 {
		relays.Go(func() {
			for f.unsettled() > 0 {
				racePass(f, &b)
			}
		})
	}
	relays.Wait()
	if err := b.checkOrder(nil); err != nil {
		t.Error(err)
	}
	if len(b.first) != orders {
		t.Errorf("%d orders appeared, want %d", len(b.first), orders)
	}
}

// racePass is one pass of a relay with random outcomes. Leases are so short that they end while the
// relay still works on the batch.
func racePass(f fixture, b *broker) {
	c, err := f.store.Claim(f.Context(), "race", 1+rand.IntN(20), time.Duration(rand.IntN(20))*time.Millisecond)
	if err != nil {
		f.Error(err)
		return
	}
	var confirmed []uuid.UUID
	for _, e := range c.Events {
		switch rand.IntN(4) {
		case 0, 1:
			b.publish(e.ID)
			confirmed = append(confirmed, e.ID)
		case 2:
			failure := outbox.Failure{ID: e.ID, Delay: time.Duration(rand.IntN(20)) * time.Millisecond, Counts: true, Code: "refused"}
			if _, err := f.store.Reschedule(f.Context(), c.Token, []outbox.Failure{failure}); err != nil {
				f.Error(err)
			}
		default: // not settled: the lease ends
		}
	}
	if err := f.store.MarkPublished(f.Context(), uuid.Nil, confirmed); err != nil {
		f.Error(err)
	}
}

// TestNoEventStaysParkedWhenEverythingRaces runs all of these on a few orders: appenders, relays
// that fail events and receive late confirms, relays without a route, and operators. No statement
// may return an error, such as a deadlock, and no event may be stranded.
func TestNoEventStaysParkedWhenEverythingRaces(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var appenders, others sync.WaitGroup
	for range 4 {
		order := uuid.New()
		appenders.Go(func() {
			for version := 1; version <= 60; version++ {
				f.append(order, version)
			}
		})
	}
	appended := make(chan struct{})
	for _, step := range []func(fixture){failClaimed, failClaimed, replayOrDiscard, replayOrDiscard, returnClaimed, retryUnroutable} {
		others.Go(func() {
			for {
				select {
				case <-appended:
					return
				default:
					step(f)
				}
			}
		})
	}
	appenders.Wait()
	close(appended)
	others.Wait()
	f.wantNone(strandedSQL)
	f.drain()
}

// failClaimed fails the events of a claim. Sometimes it receives their confirms afterwards.
func failClaimed(f fixture) {
	c, err := f.store.Claim(f.Context(), "race", 1+rand.IntN(5), lease)
	if err != nil {
		f.Error(err)
	}
	for _, e := range c.Events {
		if _, _, err := f.store.Fail(f.Context(), c.Token, outbox.Failure{ID: e.ID, Code: "refused"}); err != nil {
			f.Error(err)
		}
	}
	if rand.IntN(2) == 0 {
		if err := f.store.MarkPublished(f.Context(), uuid.Nil, idsOf(c)); err != nil {
			f.Error(err)
		}
	}
}

// replayOrDiscard replays the failed events, and sometimes discards them.
func replayOrDiscard(f fixture) {
	var failed []uuid.UUID
	f.read(&failed, "SELECT id FROM outbox_status WHERE status = 'failed'")
	decision := f.replay
	if rand.IntN(4) == 0 {
		decision = f.discard
	}
	if err := decision(failed...); err != nil {
		f.Error(err)
	}
}

// returnClaimed reschedules a claim whose events the broker has returned as unroutable.
func returnClaimed(f fixture) {
	c, err := f.store.Claim(f.Context(), "race", 1+rand.IntN(5), lease)
	if err != nil {
		f.Error(err)
	}
	var back []outbox.Failure
	for _, e := range c.Events {
		back = append(back, outbox.Failure{ID: e.ID, Delay: time.Millisecond, Code: "unroutable"})
	}
	if _, err := f.store.Reschedule(f.Context(), c.Token, back); err != nil {
		f.Error(err)
	}
}

func retryUnroutable(f fixture) {
	if _, err := f.store.RetryUnroutable(f.Context(), "order.created", 1+rand.IntN(5)); err != nil {
		f.Error(err)
	}
}

// drain settles the failed events and publishes all others.
func (f fixture) drain() {
	f.Helper()
	f.exec(endBackOffs)
	replayOrDiscard(f)
	f.endLeases()
	for c := f.claimWithUnroutable(); len(c.Events) > 0; c = f.claimWithUnroutable() {
		if err := f.store.MarkPublished(f.Context(), uuid.Nil, idsOf(c)); err != nil {
			f.Fatal(err)
		}
	}
	if n := f.unsettled(); n > 0 {
		f.Errorf("%d events are never published", n)
	}
}

// claimWithUnroutable claims after it has made unroutable events due.
func (f fixture) claimWithUnroutable() outbox.Claim {
	f.Helper()
	f.retryUnroutable(1000)
	return f.claim(100)
}

// TestNoEventStaysParkedWhenClaimsAndMarksRace lets claims park events while the older event is
// being marked, thousands of times. No janitor runs.
func TestNoEventStaysParkedWhenClaimsAndMarksRace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const orders, versions = 20, 100
	var appenders, relays sync.WaitGroup
	for range 4 {
		appenders.Go(func() {
			for range orders / 4 {
				order := uuid.New()
				for version := 1; version <= versions; version++ {
					f.append(order, version)
				}
			}
		})
	}
	appended := make(chan struct{})
	for range 4 {
		relays.Go(func() {
			for idle := false; !idle; {
				select {
				case <-appended:
					idle = true // unless this claim still finds events
				default:
				}
				c, err := f.store.Claim(t.Context(), "race", 5, lease)
				if err != nil {
					t.Error(err)
				}
				if err := f.store.MarkPublished(t.Context(), c.Token, idsOf(c)); err != nil {
					t.Error(err)
				}
				idle = idle && len(c.Events) == 0 && !c.More
			}
		})
	}
	appenders.Wait()
	close(appended)
	relays.Wait()
	f.wantNone(strandedSQL)
	f.wantNone("SELECT count(*) FROM outbox_queue")
	f.wantNone("SELECT count(*) FROM outbox_claims")
}
