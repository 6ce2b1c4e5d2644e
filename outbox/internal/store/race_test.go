package store

import (
	"cmp"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// random chooses what a random test does. SEED changes it, and what rapid chooses. The order in
// which the goroutines of a test ask is the machine's.
type random struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func init() { _ = flag.Set("rapid.seed", seed()) }

const firstSeed = "1"

func seed() string { return cmp.Or(os.Getenv("SEED"), firstSeed) }

func newRandom() *random {
	number, err := strconv.ParseUint(seed(), 10, 64)
	if err != nil {
		panic("SEED: " + err.Error())
	}
	return &random{rand: rand.New(rand.NewPCG(number, 0))}
}

// below returns a number from 0 to n-1.
func (r *random) below(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rand.IntN(n)
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

// operatorPass replays the failed events, or, now and then, discards them.
func (f fixture) operatorPass(l *ledger) {
	failed := read[uuid.UUID](f, "SELECT id FROM outbox_queue WHERE failed_at IS NOT NULL")
	decision := replaySQL
	if f.random.below(4) == 0 {
		decision = discardSQL
		l.finish(failed...)
	}
	if err := f.decide(decision, failed...); err != nil {
		f.Error(err)
	}
}

// ledger records which events were committed, and since when they may be forgotten.
type ledger struct {
	mu       sync.Mutex
	appended []uuid.UUID
	finished map[uuid.UUID]time.Time
}

func (l *ledger) append(ids ...uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appended = append(l.appended, ids...)
}

// finish records events before their settling is committed: from then on they may be forgotten.
func (l *ledger) finish(ids ...uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if _, there := l.finished[id]; !there {
			l.finished[id] = time.Now()
		}
	}
}

// wantOlderFinished checks that version 1 of an aggregate was finished before version 2 was
// claimed.
func (l *ledger) wantOlderFinished(f fixture, c Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range c.Events {
		if _, finished := l.finished[uuid.MustParse(e.AggregateID)]; e.Version > 1 && !finished {
			f.Errorf("version %d of %s was claimed before version 1 was finished", e.Version, e.AggregateID)
		}
	}
}

// check checks that no event is stored twice or without its payload, and that only finished events
// older than the retention are missing. It returns how many are missing.
func (l *ledger) check(f fixture, retention time.Duration) (gone int) {
	f.Helper()
	present := map[uuid.UUID]bool{}
	for _, id := range read[uuid.UUID](f, "SELECT id FROM outbox_status WHERE payload IS NOT NULL") {
		if present[id] {
			f.Errorf("event %s is stored twice", id)
		}
		present[id] = true
	}
	for _, id := range l.appended {
		if finished, ok := l.finished[id]; !present[id] {
			gone++
			if !ok || time.Since(finished) < retention {
				f.Errorf("event %s is lost, finished: %t", id, ok)
			}
		}
	}
	return gone
}

const shortRetention = 1500 * time.Millisecond

// TestP1P7NothingIsLostWhileOldEventsAreDeleted runs all of these at the same time: transactions
// that stay open for up to 600 ms after they appended, in all isolation levels, and roll back now
// and then; relays that fail, halt and postpone events, mark late or never; operators; and janitors
// whose sessions the server ends. The events of an aggregate are claimed in order, no event is
// stranded, and none is halted without a row in outbox_topics. It ends when janitors have succeeded
// many times, and old events are gone.
func TestP1P7NothingIsLostWhileOldEventsAreDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	l := &ledger{finished: map[uuid.UUID]time.Time{}}
	janitors := f.with(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "janitor" }).store
	var deletions, kills atomic.Int32 // kills: since the last deletion that has succeeded
	janitor := func() {
		var p place
		for range 1 + f.random.below(10) { // then another one begins at the front
			var err error
			if p, err = janitors.deleteOld(t.Context(), shortRetention, p); err == nil { // otherwise it was killed
				kills.Store(0)
				deletions.Add(1)
			}
			time.Sleep(10 * time.Millisecond) // a janitor's tick; nothing is awaited
		}
	}
	var enough atomic.Bool
	faults := func() { // one goroutine
		time.Sleep(time.Duration(f.random.below(60)) * time.Millisecond) // faults come at any time
		if kills.Add(1) <= maxKills {
			f.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'janitor'`)
		}
		enough.Store(deletions.Load() > 50 && f.forgotten(l))
	}
	appender := func() { f.appendSlowly(l) }
	relay := func() {
		c, err := f.store.Claim(t.Context(), "race", 20, time.Duration(f.random.below(200))*time.Millisecond)
		if err != nil || len(c.NoPayload) > 0 {
			t.Errorf("lost %v, error %v", c.NoPayload, err)
		}
		f.relayPass(l, c)
	}
	operator := func() { time.Sleep(time.Duration(f.random.below(300)) * time.Millisecond); f.operatorPass(l) }
	another := f
	another.store = New(f.pool) // of another replica
	probes := func() { another.relayPass(l, another.probe()) }
	check := func() { f.wantNone(haltedForEverSQL); f.wantNone(strandedSQL) }
	f.until(enough.Load, appender, appender, appender, appender, relay, relay, probes, operator, janitor, janitor, faults, check)
	gone := l.check(f, shortRetention)
	t.Logf("%d events, %d deletions, %d events gone", len(l.appended), deletions.Load(), gone)
	f.settleAll()
}

// maxKills is how often the janitors are ended before one of them succeeds. Without a limit none
// does on a slow machine.
const maxKills = 4

// forgotten is true if the outbox has fewer events than were appended.
func (f fixture) forgotten(l *ledger) bool {
	l.mu.Lock()
	appended := len(l.appended)
	l.mu.Unlock()
	return f.int("SELECT count(*) FROM outbox_status WHERE payload IS NOT NULL") < appended
}

// appendSlowly commits the events of an aggregate after a pause, or rolls it back.
func (f fixture) appendSlowly(l *ledger) {
	levels := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	rolledBack, ids := errors.New("rolled back"), []uuid.UUID{uuid.New(), uuid.New()}
	err := pgx.BeginTxFunc(f.Context(), f.pool, pgx.TxOptions{IsoLevel: levels[f.random.below(3)]}, func(tx pgx.Tx) error {
		for version, one := range ids {
			if _, err := tx.Exec(f.Context(), oneSQL, one, version+1, ids[0].String()); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(f.random.below(100)) * time.Millisecond * time.Duration(f.random.below(7)))
		if f.random.below(10) == 0 {
			return rolledBack
		}
		return nil
	})
	switch {
	case err == nil:
		l.append(ids...)
	case !errors.Is(err, rolledBack):
		f.Error(err)
	}
}

// relayPass settles a claim with random outcomes.
func (f fixture) relayPass(l *ledger, c Claim) {
	l.wantOlderFinished(f, c)
	var confirmed []uuid.UUID
	s := Settlement{Token: c.Token, Paused: map[string]string{}, FirstPause: time.Millisecond, LongestPause: 4 * time.Millisecond}
	for _, e := range c.Events {
		switch f.random.below(10) {
		case 0:
			s.Failures = append(s.Failures, Failure{ID: e.ID, Final: true, Code: "refused"})
		case 1: // not settled: the lease ends
		case 2:
			s.Failures = append(s.Failures, Failure{ID: e.ID, Counts: true, Delay: time.Millisecond})
		case 3:
			s.Failures = append(s.Failures, Failure{ID: e.ID, Halt: true})
			s.Paused[e.Topic] = "a test"
		default:
			confirmed, s.Resumed = append(confirmed, e.ID), append(s.Resumed, e.Topic)
		}
	}
	f.settle(s)
	if f.random.below(10) == 0 {
		time.Sleep(time.Duration(f.random.below(1000)) * time.Millisecond) // it was stopped before the mark
	}
	l.finish(confirmed...)
	for range 1 + f.random.below(2) { // the answer may be lost
		f.finish(c, confirmed...)
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
	f.wantNone("SELECT count(*) FROM outbox_queue")
}
