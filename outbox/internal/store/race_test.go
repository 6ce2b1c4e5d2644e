package store

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// broker records which versions of each aggregate it has received first.
type broker struct {
	mu    sync.Mutex
	seen  map[uuid.UUID]bool
	first map[string][]int
}

func newBroker() *broker { return &broker{seen: map[uuid.UUID]bool{}, first: map[string][]int{}} }

func (b *broker) publish(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.seen[e.ID] {
		b.seen[e.ID] = true
		b.first[e.AggregateID] = append(b.first[e.AggregateID], e.Version)
	}
}

// outOfOrder returns an aggregate whose versions did not come in their order.
func (b *broker) outOfOrder() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for aggregate, versions := range b.first {
		for i := 1; i < len(versions); i++ {
			if versions[i] <= versions[i-1] {
				return aggregate
			}
		}
	}
	return ""
}

// until runs each step in a loop of its own until the condition holds or the test has failed. After
// three minutes it fails the test.
func (f fixture) until(enough func() bool, steps ...func()) {
	f.Helper()
	var all sync.WaitGroup
	begin := time.Now()
	for _, step := range steps {
		all.Go(func() {
			for !enough() && !f.Failed() {
				if time.Since(begin) > 3*time.Minute {
					f.Error("not done after three minutes")
				}
				step()
			}
		})
	}
	all.Wait()
}

// TestP7RelaysRacing runs six relays at the same time, with random outcomes and leases that end
// while they work, until all events are published.
func TestP7RelaysRacing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := newBroker()
	const aggregates, versions = 20, 5
	for range aggregates {
		f.append(uuid.NewString(), 1, 2, 3, 4, 5)
	}
	relay := func() {
		c, err := f.store.Claim(t.Context(), "race", 1+f.random.below(20), time.Duration(f.random.below(20))*time.Millisecond)
		if err != nil {
			t.Error(err)
		}
		var confirmed []uuid.UUID
		for _, e := range c.Events {
			switch f.random.below(4) {
			case 0, 1:
				b.publish(e)
				confirmed = append(confirmed, e.ID)
			case 2:
				f.reschedule(c, Failure{ID: e.ID, Delay: time.Duration(f.random.below(20)) * time.Millisecond, Counts: true, Code: "refused"})
			default: // not settled: the lease ends
			}
		}
		f.mark(confirmed...)
	}
	f.until(func() bool { return f.unsettled() == 0 }, relay, relay, relay, relay, relay, relay)
	if bad := b.outOfOrder(); bad != "" || len(b.first) != aggregates || len(b.seen) != aggregates*versions {
		t.Errorf("%d aggregates, %d events, out of order: %q", len(b.first), len(b.seen), bad)
	}
}

// TestNoEventStaysParkedWhenEverythingRaces runs all of these on a few aggregates: appenders,
// relays that fail events and receive late confirms, relays without a route, relays that publish or try,
// and operators. No statement may return an error, such as a deadlock, and no event may be
// stranded.
func TestNoEventStaysParkedWhenEverythingRaces(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var appenders sync.WaitGroup
	for range 4 {
		aggregate := uuid.NewString()
		appenders.Go(func() {
			for version := 1; version <= 60; version++ {
				f.append(aggregate, version)
			}
		})
	}
	appended := make(chan struct{})
	go func() { appenders.Wait(); close(appended) }()
	f.until(func() bool {
		select {
		case <-appended:
			return true
		default:
			return false
		}
	}, f.failClaimed, f.failClaimed, f.replayOrDiscard, f.replayOrDiscard, f.returnClaimed, f.tryPaused, f.publishClaimed)
	f.wantNone(strandedSQL)
	f.settleAll()
}

func (f fixture) claimSome() Claim {
	c, err := f.store.Claim(f.Context(), "race", 1+f.random.below(5), lease)
	if err != nil {
		f.Error(err)
	}
	return c
}

// failClaimed fails the events of a claim. Sometimes it receives their confirms afterwards.
func (f fixture) failClaimed() {
	c := f.claimSome()
	for _, e := range c.Events {
		f.reschedule(c, Failure{ID: e.ID, Final: true, Code: "refused"})
	}
	if f.random.below(2) == 0 {
		f.mark(idsOf(c)...)
	}
}

func (f fixture) publishClaimed() {
	c := f.claimSome()
	f.finish(c, idsOf(c)...)
}

// returnClaimed halts the events of a claim, because no queue is bound, and pauses their topic.
func (f fixture) returnClaimed() { f.returnAll(f.claimSome(), time.Millisecond) }

// tryPaused claims a probe, and publishes it or not.
func (f fixture) tryPaused() {
	c := f.probe()
	if f.random.below(2) == 0 {
		f.returnAll(c, time.Millisecond)
	} else if len(c.Events) > 0 {
		f.settle(Settlement{Token: c.Token, End: true, Probe: true, Published: c.Events, Resumed: []string{"order.created"}})
	}
}

// replayOrDiscard replays the failed events, and sometimes discards them.
func (f fixture) replayOrDiscard() {
	failed := read[uuid.UUID](f, "SELECT id FROM outbox_queue WHERE failed_at IS NOT NULL")
	decision := replaySQL
	if f.random.below(4) == 0 {
		decision = discardSQL
	}
	if err := f.decide(decision, failed...); err != nil {
		f.Error(err)
	}
}

// settleAll replays the failed events and publishes all.
func (f fixture) settleAll() {
	f.Helper()
	f.exec(endBackOffs)
	f.endLeases()
	must(f, f.decide(replaySQL, read[uuid.UUID](f, "SELECT id FROM outbox_queue WHERE failed_at IS NOT NULL")...))
	f.exec("UPDATE outbox_topics SET resumed = true")
	f.drain()
	f.wantNone("SELECT count(*) FROM outbox_topics")
	if n := f.unsettled(); n > 0 {
		f.Errorf("%d events are never published", n)
	}
}
