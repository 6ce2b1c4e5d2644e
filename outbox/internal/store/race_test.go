package store

import (
	"cmp"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// random chooses what a random test does. SEED changes it, and what rapid chooses. The order in
// which the goroutines of a test ask is the machine's.
type random struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func init() { _ = flag.Set("rapid.seed", seed()) }

func seed() string { return cmp.Or(os.Getenv("SEED"), "1") }

func newRandom(test string) *random {
	number, err := strconv.ParseUint(seed(), 10, 64)
	if err != nil {
		panic("SEED: " + err.Error())
	}
	name := fnv.New64()
	_, _ = name.Write([]byte(test))
	return &random{rand: rand.New(rand.NewPCG(number, name.Sum64()))}
}

// below returns a number from 0 to n-1.
func (r *random) below(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rand.IntN(n)
}

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

// forget lets the order of events not count: they are discarded.
func (b *broker) forget(ids ...uuid.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		b.seen[id] = true
	}
}

// operatorPass replays the failed events, or, now and then, discards them.
func (f fixture) operatorPass(discards func(ids ...uuid.UUID)) {
	failed := read[uuid.UUID](f, "SELECT id FROM outbox_queue WHERE failed_at IS NOT NULL")
	decision := replaySQL
	if discards != nil && f.random.below(4) == 0 {
		decision = discardSQL
		discards(failed...)
	}
	if err := f.decide(decision, failed...); err != nil {
		f.Error(err)
	}
}

// TestP7RelaysRacing runs all of these at the same time: appenders; relays whose leases end while
// they work, that publish, refuse, fail and halt events, pause topics and resume them; late
// confirms; trial events; operators. No statement may return an error, such as a deadlock. The
// order of each aggregate is kept. No event is stranded, and none is halted without a row in
// outbox_topics. In the end, all are published or discarded.
func TestP7RelaysRacing(t *testing.T) {
	t.Parallel()
	f, b := newFixture(t), newBroker()
	over := time.Now().Add(4 * time.Second)
	ending := func() bool { return !time.Now().Before(over) }
	appender := func() func() {
		aggregate, version := "", 0
		return func() {
			if f.unsettled() > 500 { // so that all take part in a few aggregates, and the end is soon
				return
			}
			if version = version%5 + 1; version == 1 {
				aggregate = uuid.NewString()
			}
			f.exec(insertSQL("SELECT $1::uuid, $2::int, 'order', $3::text, $4::text, '{}'::bytea", "now()"),
				uuid.New(), version, aggregate, fmt.Sprint("topic ", f.random.below(3)))
		}
	}
	settle := func(c Claim, trial bool) {
		s := Settlement{Token: c.Token, End: true, Trial: trial, Paused: map[string]string{}, FirstPause: time.Millisecond, LongestPause: 4 * time.Millisecond}
		var late []Event
		for _, e := range c.Events {
			switch n := f.random.below(8); {
			case n < 3 || ending():
				b.publish(e)
				s.Published = append(s.Published, e)
				s.Resumed = append(s.Resumed, e.Topic)
			case n == 3:
				s.Failures = append(s.Failures, Failure{ID: e.ID, Counts: true, Delay: time.Millisecond})
			case n == 4: // or its answer was lost
				b.publish(e)
				s.Failures = append(s.Failures, Failure{ID: e.ID, Final: true})
				late = append(late, e)
			case n < 7:
				s.Failures = append(s.Failures, Failure{ID: e.ID, Halt: true})
				s.Paused[e.Topic] = "a test"
			}
		}
		f.settle(s)
		switch f.random.below(4) {
		case 0:
			f.settle(Settlement{Published: s.Published}) // the answer to the settlement was lost
		case 1:
			f.settle(Settlement{Published: late})
		}
	}
	relay := func(s *Store) func() {
		return func() {
			c, err := s.Claim(t.Context(), "race", 1+f.random.below(20), time.Duration(f.random.below(50))*time.Millisecond)
			if err != nil {
				t.Error(err)
			}
			settle(c, false)
		}
	}
	replica := New(f.pool)
	trials := func() { settle(f.trial(), true) }
	check := func() {
		f.wantNone("SELECT count(*) FROM outbox_queue q WHERE halted AND NOT EXISTS (SELECT FROM outbox_topics t WHERE t.topic = q.topic)")
		f.wantNone(strandedSQL)
	}
	f.until(ending, appender(), appender(), appender(), relay(f.store), relay(f.store), relay(replica), relay(replica),
		trials, trials, func() { f.operatorPass(b.forget) }, check)
	f.until(func() bool { return f.unsettled() == 0 && f.int("SELECT count(*) FROM outbox_topics") == 0 },
		relay(f.store), relay(replica), trials, func() { f.operatorPass(nil) }, check)
	bad, appended := b.outOfOrder(), f.int("SELECT count(*) FROM outbox_events")
	if bad != "" || len(b.seen) != appended {
		t.Errorf("%d of %d events were published or discarded; the events of %q came out of order: %v", len(b.seen), appended, bad, b.first[bad])
	}
	t.Logf("%d events", appended)
}
