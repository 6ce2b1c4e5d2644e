package relay

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/internal/storetest"
	"example.com/transactional-outbox/outbox/publish"
)

// simTime is how long the simulation runs. SIM_SEEDS is a number of seeds instead.
const simTime = 25 * time.Second

// TestP3P4P6P7P12Simulation runs two or three real relays, in virtual time, on a model of the store
// and a destination with faults. Each seed has settings, events and faults of its own. Then the
// faults stop, and every event must end. SEED is the first seed. See docs/guarantees.md.
func TestP3P4P6P7P12Simulation(t *testing.T) {
	t.Parallel()
	first, err := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), "1"), 10, 32)
	seeds, err2 := strconv.ParseUint(cmp.Or(os.Getenv("SIM_SEEDS"), "0"), 10, 32)
	if err := cmp.Or(err, err2); err != nil {
		t.Fatalf("SEED and SIM_SEEDS are numbers: %v", err)
	}
	var begun atomic.Uint64
	began := time.Now()
	t.Run("seeds", func(t *testing.T) {
		for i := range 2 { // one for each processor
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				for {
					seed := first + begun.Add(1) - 1
					if seeds > 0 && seed >= first+seeds || seeds == 0 && (t.Failed() || time.Since(began) > simTime) {
						begun.Add(^uint64(0))
						return
					}
					t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { simulate(t, seed) }) //nolint:paralleltest // two run at the same time
				}
			})
		}
	})
	t.Logf("%d seeds from %d", begun.Load(), first)
}

// hasTrail is for one trail: with a fault in the code, many seeds fail.
var hasTrail atomic.Bool

// sim is the world of one seed.
type sim struct {
	*testing.T
	profile
	seed  uint64
	start time.Time

	mu         sync.Mutex
	randoms    map[string]*rand.Rand
	faultsOver bool // nothing fails any more
	history

	model      *storetest.Model
	undo       []commit // what a crash of the database may forget
	crashes    int
	worksUntil time.Time // the broker
	tokens     int
	database   outage
	broker     outage
	blocked    outage // the broker asks to wait
	relays     []*process
}

// outage is when a server does not work.
type outage struct {
	from, until time.Time
	silent      bool // or it refuses
}

func (o outage) isOn() bool { return time.Now().Before(o.until) }

// profile is what may happen in a run. Most faults are left out of each run.
type profile struct {
	relays, workers, window, aggregates, topics int
	oneByOne, oneDestination, large             bool
	supersedes, delayed                         int    // percent of the events
	badTopic                                    string // what topic 0 does; then nothing else fails
	minutes                                     float64
	soon, each, delay                           time.Duration // the broker answers within soon, after each for each message before it and delay
	inOrder                                     bool          // a claim takes the oldest events

	// per thousand steps of a process
	stalls, kills int
	// per thousand statements
	dbErrors, dbSlow, dbCrashes int
	faults                      []fault
	// of 60 rounds of the main loop
	terms, dbAway, away, blocks, operators int
}

// fault is what happens to a message, to so many of a thousand.
type fault struct {
	name string
	rate int
}

// The faults of the destinations, with the largest rate of each.
var (
	brokerFaults   = []fault{{"refused", 100}, {"returned", 40}, {"late", 60}, {"silent", 40}, {"closed", 30}, {"unread", 250}, {"lost", 20}}
	functionFaults = []fault{{"refused", 100}, {"returned", 40}, {"late", 60}, {"silent", 100}, {"invalid", 10}, {"not sent", 30}}
)

// newProfile draws a profile. A connection that is not read holds messages that are claimed and not
// sent, and many mistakes need them, so that fault is frequent.
func newProfile(seed uint64) profile {
	r := rand.New(rand.NewPCG(seed, 1))
	upTo := func(n int) int { // mostly 0
		if r.IntN(5) < 3 {
			return 0
		}
		return 1 + r.IntN(n)
	}
	p := profile{
		soon: 40 * time.Millisecond, relays: 2 + r.IntN(2), workers: 1 + r.IntN(2), window: []int{2, 5, 20}[r.IntN(3)], aggregates: 1 + r.IntN(6), topics: 1 + r.IntN(3),
		oneByOne: r.IntN(3) == 0, oneDestination: r.IntN(2) == 0, large: r.IntN(3) == 0,
		supersedes: upTo(70), delayed: upTo(20), minutes: 0.2 + 0.3*r.Float64(),
	}
	faults := brokerFaults
	if p.oneByOne {
		faults = functionFaults
	}
	if r.IntN(5) == 0 {
		p.faults = []fault{{faults[r.IntN(len(faults))].name, 0}}
		p.badTopic = p.faults[0].name
		// With one destination, what hangs stops all. What hangs in a call keeps its place in the window.
		p.topics, p.aggregates, p.oneDestination, p.delayed = 3, 9, false, 0
		if p.oneByOne {
			p.window = 20
		}
		return p
	}
	for _, f := range faults {
		if f.rate = max(upTo(f.rate), upTo(f.rate)); f.rate > 0 {
			p.faults = append(p.faults, f)
		}
	}
	p.stalls, p.kills = upTo(10), upTo(3)
	p.dbErrors, p.dbSlow, p.dbCrashes = upTo(40), upTo(10), upTo(20)
	p.terms, p.dbAway, p.operators = upTo(3), upTo(3), upTo(20)
	if !p.oneByOne { // a function has no connection
		p.away, p.blocks = upTo(3), upTo(3)
		p.each, p.delay = time.Duration(upTo(200))*time.Millisecond, time.Duration(upTo(3)*upTo(3))*time.Second
	}
	return p
}

// draw returns a number below n. Each stream has random numbers of its own, so that the order in
// which goroutines run changes as little as possible.
func (s *sim) draw(stream string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random(stream).IntN(n)
}

// random returns a stream. The caller holds s.mu.
func (s *sim) random(stream string) *rand.Rand {
	if s.randoms[stream] == nil {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(stream))
		s.randoms[stream] = rand.New(rand.NewPCG(s.seed, hash.Sum64()))
	}
	return s.randoms[stream]
}

// happens reports whether a fault happens: with a chance of rate in a thousand.
func (s *sim) happens(stream string, rate int) bool {
	return s.draw(stream, 1000) < rate && !s.areFaultsOver()
}

func (s *sim) upTo(stream string, d time.Duration) time.Duration {
	return time.Duration(s.draw(stream, int(d)))
}

func (s *sim) areFaultsOver() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.faultsOver }

// simID makes ids that are the same in each run.
func simID(kind byte, n int) uuid.UUID {
	return uuid.UUID{0: kind, 14: byte(n >> 8), 15: byte(n)}
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64) {
	t.Helper()
	var s *sim
	synctest.Test(t, func(t *testing.T) {
		s = newSim(t, newProfile(seed), seed)
		for i := range s.profile.relays {
			s.startRelay(string(rune('A'+i)), 1)
		}
		for s.isGood() && time.Since(s.start).Minutes() < s.minutes {
			time.Sleep(s.upTo("pause", 600*time.Millisecond))
			s.appendSome()
			s.restart(3)
			s.injectFault()
		}
		s.mu.Lock()
		s.faultsOver, s.database, s.broker, s.blocked, s.each, s.delay = true, outage{}, outage{}, outage{}, 0, 0
		s.mu.Unlock()
		s.restart(1)
		for i := 0; i < 600 && s.isGood() && s.resolve() > 0; i++ {
			time.Sleep(time.Second)
		}
		time.Sleep(latest) // for late answers
		s.checkEnd()
		for _, p := range s.relays {
			s.term(p, false)
		}
		for _, p := range s.relays {
			<-p.ended
		}
	})
	if s.failure == "" {
		return
	}
	t.Errorf("%s\nSEED=%d SIM_SEEDS=1 go test -C outbox -count=1 -v -run Simulation ./internal/relay", s.failure, seed)
	if !hasTrail.Swap(true) {
		t.Logf("%+v\n%s", s.profile, s.table())
	}
}

func newSim(t *testing.T, p profile, seed uint64) *sim {
	t.Helper()
	s := &sim{T: t, profile: p, seed: seed, start: time.Now(), randoms: map[string]*rand.Rand{}, history: newHistory()}
	s.model = storetest.New(time.Now)
	return s
}

// startRelay starts a process that runs a relay.
func (s *sim) startRelay(name string, run int) {
	p := &process{sim: s, name: name, run: run, ended: make(chan struct{}), confirms: map[uuid.UUID]bool{}, calls: map[*record]bool{}}
	c := Config{
		Workers: s.workers, Window: s.window, Lease: 5 * time.Second, RetryBase: 100 * time.Millisecond, RetryCap: 2 * time.Second,
		GiveUp: 8 * time.Second, LongestTopicPause: 3 * time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	var to publish.Destination = &simBroker{p}
	if s.oneByOne {
		c.NoAnswerPauses, c.DurableMarks, c.SettleAfter = []time.Duration{time.Second, 3 * time.Second}, true, time.Microsecond
		to = publish.Func(p.call, publish.FuncConfig{OneDestination: s.oneDestination, Calls: 1 + s.draw("calls", 3), Timeout: 2 * time.Second})
	}
	p.relay = New(&simStore{p}, to, c.withDefaults())
	ctx, cancel := context.WithCancel(s.Context())
	p.cancel = cancel
	s.mu.Lock()
	s.relays = append(s.relays, p)
	s.say(p.title(), nil, "starts")
	s.mu.Unlock()
	go func() {
		defer close(p.ended)
		if err := p.relay.Run(ctx); err != nil {
			s.reportViolation("%s ended: %v", p.title(), err)
		}
		if n := p.relay.bytes.Load(); n != 0 {
			s.reportViolation("%s has ended and counts %d bytes in flight", p.title(), n)
		}
	}()
}

// term sends SIGTERM to a process, and starts another one.
func (s *sim) term(p *process, another bool) {
	s.mu.Lock()
	if p.stopping {
		s.mu.Unlock()
		return
	}
	p.stopping, p.sigtermAt = true, time.Now()
	s.say(p.title(), nil, "SIGTERM")
	s.mu.Unlock()
	p.cancel()
	go func() {
		<-p.ended
		s.checkTerm(p)
	}()
	if another {
		s.startRelay(p.name, p.run+1)
	}
}

// appendSome commits up to six events.
func (s *sim) appendSome() {
	for range 1 + s.draw("append", 1+s.draw("append", 6)) {
		topic, number := s.draw("topic", s.topics), s.draw("aggregate", s.aggregates)
		if s.badTopic != "" {
			topic = number % s.topics // so that no good event waits for one of the bad topic
		}
		e := store.Event{Topic: fmt.Sprintf("t%d", topic), Aggregate: "order", AggregateID: string(rune('a' + number))}
		e.Supersedes = s.draw("supersedes", 100) < s.supersedes
		if s.draw("no aggregate", 10) < 2 {
			e.Aggregate, e.AggregateID, e.Supersedes = "", "", false
		}
		if s.large && s.draw("large", 2) == 0 {
			e.Payload = large
		}
		delay := time.Duration(0)
		if s.draw("delayed", 100) < s.delayed {
			delay = s.upTo("delay", 10*time.Second)
		}
		s.append(e, delay)
	}
	s.relays[s.draw("wake", len(s.relays))].relay.Wake()
}

// eventBytes is the largest payload.
const eventBytes = 256 << 10

var large = make([]byte, 4<<20)
