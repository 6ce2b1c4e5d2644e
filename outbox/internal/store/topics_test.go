package store

import (
	"slices"
	"testing"
	"time"
)

// pause pauses a topic for an hour, as a relay does.
func (f fixture) pause(topic string) {
	f.Helper()
	f.settle(Settlement{Paused: map[string]string{topic: "a test"}, FirstPause: time.Hour})
}

// hold pauses a topic, as an operator does, and resume ends a pause.
func (f fixture) hold(topic string) {
	f.Helper()
	f.exec(`INSERT INTO outbox_topics (topic, until, pause, reason, operator) VALUES ($1, 'infinity', 0, 'a test', 'somebody')
		ON CONFLICT (topic) DO UPDATE SET until = 'infinity', operator = 'somebody', resumed = false`, topic)
}

func (f fixture) resume(topic string) {
	f.Helper()
	f.exec("UPDATE outbox_topics SET resumed = true WHERE topic = $1", topic)
}

// wantHalted checks how many events of all topics are halted.
func (f fixture) wantHalted(want int) {
	f.Helper()
	if n := f.int("SELECT count(*) FROM outbox_queue WHERE halted"); n != want {
		f.Errorf("%d events are halted, want %d", n, want)
	}
}

// TestAClaimHaltsEventsOfPausedTopics: at most maxHalt, and takes the later events of other topics.
func TestAClaimHaltsEventsOfPausedTopics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(manySQL, "away", maxHalt+1000)
	f.exec("UPDATE outbox_queue SET available_at = available_at - interval '1 minute'")
	others := f.appendMany(3)
	f.pause("away")
	c, err := f.store.Claim(t.Context(), "test", 10, lease)
	must(t, err)
	f.wantEvents(c, others...)
	f.wantHalted(maxHalt)
	if !c.More || c.NextTrial == nil || *c.NextTrial < 3500 {
		t.Errorf("more %t, the next trial is in %v", c.More, c.NextTrial)
	}
	later := f.appendMany(2)
	c, err = f.store.Claim(t.Context(), "test", 10, lease) // it begins behind the events of the paused topic
	must(t, err)
	f.wantEvents(c, later...)
	f.wantHalted(maxHalt)
	for range 2 {
		f.reset()
		if c, err = f.store.Claim(t.Context(), "test", 10, lease); err != nil || len(c.Events) > 0 {
			t.Errorf("claimed %d, error %v", len(c.Events), err)
		}
	}
	f.wantHalted(maxHalt + 1000)
	if c.More {
		t.Error("more events are due, although all are halted")
	}
}

// TestAClaimAfterAResumeBeginsAtTheFront, although the last full read was a moment ago.
func TestAClaimAfterAResumeBeginsAtTheFront(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(manySQL, "away", maxHalt+1000)
	f.exec("UPDATE outbox_queue SET available_at = available_at - interval '1 minute'")
	f.pause("away")
	_, err := f.store.Claim(t.Context(), "test", 10, lease)
	must(t, err)
	f.store.floor.until = time.Now().Add(time.Hour)
	f.resume("away")
	c, err := f.store.Claim(t.Context(), "test", 10, lease)
	must(t, err)
	if !c.More {
		t.Fatal("the relay does not look again")
	}
	f.exec("DELETE FROM outbox_queue WHERE halted OR available_at > now() - interval '30 seconds'")
	if c, err = f.store.Claim(t.Context(), "test", 10, lease); err != nil || len(c.Events) != 10 {
		t.Errorf("claimed %d, error %v", len(c.Events), err)
	}
}

// TestAClaimAfterAPauseHalts, although the last full read was a moment ago. Without a halted event
// the topic could not be tried, and would be resumed.
func TestAClaimAfterAPauseHalts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(3)
	f.store.floor.set(found{first: time.Now().Add(time.Hour)}, time.Now(), time.Now().Add(time.Hour))
	f.pause("order.created")
	for range 2 {
		_, err := f.store.Claim(t.Context(), "test", 10, lease)
		must(t, err)
	}
	f.wantHalted(3)
}

// TestAResumedTopicComesBackInParts: as many events as there is room for, and a tenth at least. The
// row goes at the end.
func TestAResumedTopicComesBackInParts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(manySQL, "away", 500)
	f.pause("away")
	f.wantClaimed()
	f.settle(Settlement{Resumed: []string{"away"}})
	f.reset()
	_, err := f.store.Claim(t.Context(), "test", 100, lease)
	must(t, err)
	f.wantHalted(399)
	f.wantNone(haltedForEverSQL)
	f.exec(manySQL, "order.created", 1000)
	f.reset()
	c, err := f.store.Claim(t.Context(), "test", 100, lease)
	must(t, err)
	f.wantHalted(388)
	if len(c.Events) != 100 || !c.More {
		t.Errorf("claimed %d", len(c.Events))
	}
	f.drain()
	f.endLeases()
	f.drain()
	f.wantNone("SELECT count(*) FROM outbox_topics")
	f.wantNone("SELECT count(*) FROM outbox_queue")
}

// TestTheStarHoldsEverything, also trial events, and before there is any event.
func TestTheStarHoldsEverything(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.hold(AllTopics)
	ids := f.appendMany(3)
	f.exec(manySQL, "away", 2)
	f.pause("away")
	f.wantClaimed()
	f.wantHalted(2)
	f.endPauses()
	if c := f.trial(); len(c.Events) > 0 || c.NextTrial != nil {
		t.Errorf("%d trial events, the next one in %v", len(c.Events), c.NextTrial)
	}
	f.settle(Settlement{Resumed: []string{AllTopics, "order.created"}})
	f.wantClaimed()
	f.resume(AllTopics)
	f.wantClaimed(ids...)
	if c := f.trial(); len(c.Events) != 1 {
		t.Errorf("%d trial events", len(c.Events))
	}
	f.wantNone("SELECT count(*) FROM outbox_topics WHERE topic = '*'")
}

// TestAnOperatorsPauseStays whatever relays see of the topic, until the operator resumes it.
func TestAnOperatorsPauseStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	c := f.claim(1)
	f.hold("order.created")
	f.settle(Settlement{Token: c.Token, End: true, Published: f.events(ids[0]), Resumed: []string{"order.created"}})
	f.settle(Settlement{Paused: map[string]string{"order.created": "no queue"}, Trial: true})
	f.wantClaimed()
	f.endPauses()
	f.wantEvents(f.trial())
	if held := f.int("SELECT count(*) FROM outbox_topics WHERE until = 'infinity' AND operator = 'somebody' AND reason = 'a test'"); held != 1 {
		t.Error("a relay has changed an operator's pause")
	}
	f.resume("order.created")
	f.wantClaimed(ids[1])
}

// TestP4ATopicThatPausesWhileItIsForgottenKeepsItsRow: it pauses and is resumed after the statement
// that forgets it has begun, and before that locks its row.
func TestP4ATopicThatPausesWhileItIsForgottenKeepsItsRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.appendMany(1)
	c := f.claim(1)
	f.pause("order.created")
	f.wantClaimed() // it sees that there are topics
	f.settle(Settlement{Resumed: []string{"order.created"}})
	var end func()
	f.withPausedWrites("BEFORE DELETE ON outbox_topics FOR EACH STATEMENT", func() {
		end = f.startUntilBlocked(1, func() error {
			_, err := f.store.Claim(t.Context(), "test", 1, lease)
			return err
		})
		f.settle(Settlement{
			Token: c.Token, End: true, Failures: []Failure{{ID: c.Events[0].ID, Halt: true}}, Paused: map[string]string{"order.created": "a test"},
		})
		f.settle(Settlement{Resumed: []string{"order.created"}})
	})
	end()
	f.wantHalted(1)
	if f.int("SELECT count(*) FROM outbox_topics") != 1 {
		t.Error("an event is halted, and its topic has no row")
	}
}

// TestATopicWithoutHaltedEventsIsResumed when its trial is due, and forgotten.
func TestATopicWithoutHaltedEventsIsResumed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.pause("away")
	f.endPauses()
	if c := f.trial(); len(c.Events) > 0 || c.NextTrial != nil {
		t.Errorf("claimed %d, the next trial is in %v", len(c.Events), c.NextTrial)
	}
	f.wantClaimed()
	f.wantNone("SELECT count(*) FROM outbox_topics")
}

// TestP9ATopicIsTriedBeforeItsDueEventsAreClaimed, also if they became due after the last claim.
func TestP9ATopicIsTriedBeforeItsDueEventsAreClaimed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.pause("order.created")
	f.wantClaimed()
	f.endPauses()
	ids := f.appendMany(3)
	f.wantEvents(f.trial())
	f.reset() // a full read
	f.wantClaimed()
	f.wantHalted(3)
	f.endPauses()
	f.wantEvents(f.trial(), ids[0])
}

// TestP9OneAggregateDoesNotStandForItsTopic: a newer event that supersedes a refused one counts as
// tried, too. It would be refused for the same reason.
func TestP9OneAggregateDoesNotStandForItsTopic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bad := f.supersede("bad", 1)
	f.reschedule(f.claim(1), Failure{ID: bad, Counts: true, Code: "refused"})
	f.pause("order.created")
	newer := f.supersede("bad", 2)
	good := f.supersede("good", 1)
	f.wantClaimed()
	f.endPauses()
	f.wantEvents(f.trial(), good)
	f.endPauses()
	f.wantEvents(f.trial(), newer)
}

// TestDeletingTheRowOfATopicResumesIt, with the next claims. A full read looks at maxTopics topics,
// so the second one finds the last row.
func TestDeletingTheRowOfATopicResumesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(manySQL, "away", 3)
	f.exec(manySQL, "further away", 2)
	f.pause("away")
	f.pause("further away")
	f.wantClaimed()
	f.wantHalted(5)
	f.store.floor.until = time.Now().Add(time.Hour)
	f.exec("DELETE FROM outbox_topics WHERE topic = 'away'")
	for range 2 { // the first one sees that a pause is gone
		_, err := f.store.Claim(t.Context(), "test", 10, lease)
		must(t, err)
	}
	f.wantHalted(2)
	if n := f.int("SELECT count(*) FROM outbox_claims"); n != 1 {
		t.Errorf("%d claims", n)
	}
	f.exec(insertSQL("SELECT gen_random_uuid(), 1, 'order', gen_random_uuid()::text, 'b ' || i, '{}'::bytea FROM generate_series(1, $1::int) i", "'infinity'"), maxTopics)
	f.exec("UPDATE outbox_queue SET halted = true WHERE topic LIKE 'b %'")
	f.exec("INSERT INTO outbox_topics (topic, until, pause, reason) SELECT topic, 'infinity', 1, '' FROM outbox_queue WHERE topic LIKE 'b %'")
	f.exec("DELETE FROM outbox_topics WHERE topic = 'further away'")
	for _, left := range []int{2, 0} {
		f.store.floor.again()
		_, err := f.store.Claim(t.Context(), "test", 10, lease)
		must(t, err)
		f.wantHalted(maxTopics + left)
	}
}

// TestAClaimLeavesOutWhatTheLastOneFoundNotNeeded, and its own end does not hide a pause.
func TestAClaimLeavesOutWhatTheLastOneFoundNotNeeded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, want := range []int{3, 0} {
		if got := len(f.store.putAside(&found{}, time.Time{}, false, 10, 100)); got != want {
			t.Errorf("%d more statements, want %d", got, want)
		}
		_, err := f.store.Claim(t.Context(), "test", 10, lease)
		must(t, err)
	}
	f.pause("away")
	if c, err := f.store.Claim(t.Context(), "test", 10, lease); err != nil || !c.More {
		t.Errorf("more: %t, error %v", c.More, err)
	}
}

// TestP7OnlyTheOldestOfAnAggregateIsHalted: the later ones are parked behind it, and come back in
// their order.
func TestP7OnlyTheOldestOfAnAggregateIsHalted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("a", 1, 2, 3)
	f.pause("order.created")
	f.wantClaimed()
	f.wantHalted(1)
	f.wantDue(parked, ids...)
	ids = append(ids, f.append("a", 4)...)
	f.wantClaimed()
	f.wantHalted(1)
	f.resume("order.created")
	if got := f.drain(); !slices.Equal(got, ids) {
		t.Errorf("published %v, want %v", got, ids)
	}
	f.wantNone("SELECT count(*) FROM outbox_topics")
}
