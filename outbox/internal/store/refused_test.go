package store

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestAnEventFailsByAgeAndNumber: it was refused ten times, and first longer ago than GiveUp, by the
// clock of the database.
func TestAnEventFailsByAgeAndNumber(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before int
		since  string
		counts bool
		fails  bool
	}{
		"old enough and often enough": {9, "now() - interval '61 minutes'", true, true},
		"not old enough":              {50, "now() - interval '59 minutes'", true, false},
		"not often enough":            {8, "now() - interval '1 year'", true, false},
		"the first time":              {0, "NULL", true, false},
		"not counted":                 {50, "now() - interval '1 year'", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := f.appendMany(1)
			f.exec("UPDATE outbox_queue SET retry_count = $1, refused_since = "+test.since, test.before)
			done := f.settle(Settlement{
				Token: f.claim(1).Token, End: true, GiveUp: time.Hour,
				Failures: []Failure{{ID: ids[0], Counts: test.counts, Delay: time.Hour, Code: "refused"}},
			})
			if at, failed := done.Failed[ids[0]]; failed != test.fails || failed == at.IsZero() {
				t.Errorf("failed: %t at %v", failed, at)
			}
			want := test.before
			if test.counts {
				want++
				f.wantNone("SELECT count(*) FROM outbox_queue WHERE refused_since IS NULL OR refused_since > now()")
			}
			if got := f.row(ids[0]); got.RetryCount != want || (got.Status == "failed") != test.fails {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestRenewKeepsAClaim beyond its lease, and revives none.
func TestRenewKeepsAClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	kept, err := f.store.Claim(t.Context(), "kept", 1, 100*time.Millisecond)
	must(t, err)
	lost, err := f.store.Claim(t.Context(), "lost", 1, 100*time.Millisecond)
	must(t, err)
	_, err = f.store.Renew(t.Context(), []uuid.UUID{kept.Token}, time.Hour)
	must(t, err)
	f.waitFor(func() bool { return f.int("SELECT count(*) FROM outbox_claims WHERE until > now()") == 1 })
	f.wantClaimed(ids[1])
	_, err = f.store.Renew(t.Context(), []uuid.UUID{lost.Token}, time.Hour)
	must(t, err)
	if f.int("SELECT count(*) FROM outbox_claims") != 2 || f.reschedule(kept, Failure{ID: ids[0]}) != 1 {
		t.Error("a renewed claim was lost, or one that had ended is back")
	}
}

// TestAHaltedEventCanFailAndBeDiscarded: the probe cannot be sent to any destination. The next event
// of its aggregate then waits for the topic.
func TestAHaltedEventCanFailAndBeDiscarded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("a", 1, 2)
	f.pause("order.created")
	f.wantClaimed()
	f.endPauses()
	c := f.probe()
	f.reschedule(c, Failure{ID: ids[0], Final: true, Halt: true, Code: "invalid"})
	f.finish(c)
	f.wantHalted(0)
	f.wantStatus("failed", ids[0])
	must(t, f.decide(discardSQL, ids[0]))
	f.wantDue(0, ids[1])
	f.wantClaimed()
	f.wantHalted(1)
	f.resume("order.created")
	if got := f.drain(); !slices.Equal(got, ids[1:]) {
		t.Errorf("published %v", got)
	}
}

// TestAConfirmOfAHaltedEvent: it was sent before its topic was paused.
func TestAConfirmOfAHaltedEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("a", 1, 2)
	f.pause("order.created")
	f.wantClaimed()
	f.mark(ids[0])
	f.wantStatus("published", ids[0])
	f.wantDue(0, ids[1])
}

// TestATopicWithoutHaltedEventsIsResumed when its probe is due, and forgotten.
func TestATopicWithoutHaltedEventsIsResumed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.pause("away")
	f.endPauses()
	if c := f.probe(); len(c.Events) > 0 || c.NextProbe != nil {
		t.Errorf("claimed %d, the next probe is in %v", len(c.Events), c.NextProbe)
	}
	f.wantClaimed()
	f.wantNone("SELECT count(*) FROM outbox_topics")
}

// TestBacklogCountsWhatIsPaused, and says since when an event is refused.
func TestBacklogCountsWhatIsPaused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(manySQL, "away", 3)
	ids := f.appendMany(2)
	f.pause("away")
	f.hold("empty")
	f.exec("UPDATE outbox_queue SET refused_since = now() - interval '1 hour' WHERE id = $1", ids[0])
	f.exec("UPDATE outbox_queue SET refused_since = now() - interval '1 day', failed_at = now(), available_at = 'infinity' WHERE id = $1", ids[1])
	f.claim(10)
	b, err := f.store.Backlog(t.Context(), CountLimit)
	if must(t, err); b.Pending != 3 || b.InProgress != 1 || b.Failed != 1 || b.Halted != 3 || b.PausedTopics != 2 ||
		b.OldestRefused < 3600 || b.OldestRefused > 3700 {
		t.Errorf("%+v", b)
	}
}

// TestNoEventStaysHaltedWhenTopicsRace: relays halt events and pause their topics while others take
// some and resume them, claim, and try. Nothing is halted without a row in outbox_topics, no
// statement fails, and the order of aggregates is kept.
func TestNoEventStaysHaltedWhenTopicsRace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := newBroker()
	topics := []string{"a", "b", "c"}
	append := func() {
		for i, aggregate := 1, uuid.NewString(); i <= 3; i++ {
			id := uuid.New()
			f.exec(insertSQL("SELECT $1::uuid, $2::int, 'order', $3::text, $4::text, '{}'::bytea", "now()"), id, i, aggregate, topics[f.random.below(3)])
		}
	}
	var over time.Time
	ending := func() bool { return !time.Now().Before(over) }
	settle := func(c Claim, probe bool) {
		s := Settlement{Token: c.Token, End: true, Probe: probe, Paused: map[string]string{}, FirstPause: time.Millisecond, LongestPause: 4 * time.Millisecond}
		for _, e := range c.Events {
			switch n := f.random.below(6); {
			case n < 2 || ending():
				b.publish(e)
				s.Published = slices.Concat(s.Published, []Event{e})
				s.Resumed = slices.Concat(s.Resumed, []string{e.Topic})
			case n == 2:
				s.Failures = slices.Concat(s.Failures, []Failure{{ID: e.ID, Counts: true, Delay: time.Millisecond}})
			case n < 5:
				s.Failures = slices.Concat(s.Failures, []Failure{{ID: e.ID, Halt: true}})
				s.Paused[e.Topic] = "a test"
			}
		}
		f.settle(s)
		if f.random.below(4) == 0 {
			f.settle(Settlement{Published: s.Published}) // its answer was lost
		}
	}
	replica := New(f.pool)
	relay := func(s *Store) func() {
		return func() {
			c, err := s.Claim(t.Context(), "race", 1+f.random.below(20), time.Duration(f.random.below(50))*time.Millisecond)
			if err != nil {
				t.Error(err)
			}
			settle(c, false)
		}
	}
	prober := func() { settle(f.probe(), true) }
	check := func() {
		f.wantNone("SELECT count(*) FROM outbox_queue q WHERE halted AND NOT EXISTS (SELECT FROM outbox_topics t WHERE t.topic = q.topic)")
		f.wantNone(strandedSQL)
	}
	over = time.Now().Add(3 * time.Second)
	f.until(ending, append, append, relay(f.store), relay(f.store), relay(replica), prober, prober, check)
	f.until(func() bool { return f.unsettled() == 0 && f.int("SELECT count(*) FROM outbox_topics") == 0 },
		relay(f.store), relay(replica), prober, check)
	if bad := b.outOfOrder(); bad != "" {
		t.Errorf("the events of %s came out of order: %v", bad, b.first[bad])
	}
	t.Logf("%d events", len(b.seen))
}
