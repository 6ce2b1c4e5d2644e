package store

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
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
	if !c.More || c.NextProbe == nil || *c.NextProbe < 3500 {
		t.Errorf("more %t, the next probe is in %v", c.More, c.NextProbe)
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

// TestAProbeIsTheEventThatWasTriedLeast, and of these the oldest. No two replicas try the same topic.
func TestAProbeIsTheEventThatWasTriedLeast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(3)
	f.pause("order.created")
	f.wantClaimed()
	f.wantEvents(f.probe()) // the pause is not over
	for _, want := range []uuid.UUID{ids[0], ids[1], ids[2], ids[0]} {
		f.endPauses()
		c := f.probe()
		f.wantEvents(c, want)
		f.wantEvents(f.probe()) // another replica
		if c.NextProbe == nil || *c.NextProbe < 1 {
			t.Errorf("the next probe is not planned for later")
		}
		if f.reschedule(c, Failure{ID: want, Counts: true, Delay: time.Hour, Code: "refused"}) != 1 {
			t.Error("the probe is not held")
		}
		f.finish(c)
		f.exec(endBackOffs)
		f.wantClaimed() // halts it again
		f.wantHalted(3)
	}
}

// TestProbesOfReplicasAreOfOtherTopics: they run at the same time, and together try each topic once.
func TestProbesOfReplicasAreOfOtherTopics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, topic := range []string{"a", "b", "c", "d", "e", "f"} {
		f.exec(manySQL, topic, 3)
		f.pause(topic)
	}
	f.wantClaimed()
	f.endPauses()
	tried := make(chan []uuid.UUID, 4)
	for range cap(tried) {
		go func() {
			c, err := f.store.ClaimProbes(t.Context(), "test", 3, lease)
			if err != nil {
				t.Error(err)
			}
			tried <- idsOf(c)
		}()
	}
	n := 0
	for range cap(tried) {
		n += len(<-tried)
	}
	topics := f.int("SELECT count(DISTINCT topic) FROM outbox_queue WHERE id IN (SELECT unnest(events) FROM outbox_claims)")
	if n != 6 || topics != 6 {
		t.Errorf("%d probes of %d topics, want 6 of 6", n, topics)
	}
}

// TestAPauseDoublesOnlyByProbes, and up to its cap.
func TestAPauseDoublesOnlyByProbes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := Settlement{Paused: map[string]string{"x": "a test"}}
	for i, want := range []float64{1, 1, 1, 2, 4, 8, 10, 10} {
		s.Probe = i > 2
		f.settle(s)
		if got := read[float64](f, "SELECT pause FROM outbox_topics")[0]; got != want {
			t.Errorf("the pause is %g s after settlement %d, want %g", got, i, want)
		}
	}
	f.resume("x")
	f.settle(s)
	if got := read[float64](f, "SELECT pause FROM outbox_topics WHERE NOT resumed")[0]; got != 1 {
		t.Errorf("a new pause is %g s", got)
	}
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

// TestAnEventWithoutAnswerIsHaltedAndStaysClaimed: no claim reads past it, and no other relay sends
// it. Its confirm still counts. When the lease ends, it is the topic's probe.
func TestAnEventWithoutAnswerIsHaltedAndStaysClaimed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(3)
	c := f.claim(2)
	f.settle(Settlement{Token: c.Token, Halted: ids, Paused: map[string]string{"order.created": "no answer"}, FirstPause: time.Hour})
	f.wantHalted(2) // the claim does not hold the third one
	f.endPauses()
	if p := f.probe(); len(p.Events) > 0 || p.NextProbe == nil || *p.NextProbe > 2 {
		t.Errorf("%d probes, the next one in %v", len(p.Events), p.NextProbe)
	}
	f.settle(Settlement{Token: c.Token, Published: f.events(ids[0])})
	f.wantStatus("published", ids[0])
	f.endLeases()
	f.wantClaimed() // it ends the lease
	f.endPauses()
	f.wantEvents(f.probe(), ids[1])
}

// TestTheStarHoldsEverything, also probes, and before there is any event.
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
	if c := f.probe(); len(c.Events) > 0 || c.NextProbe != nil {
		t.Errorf("%d probes, the next one in %v", len(c.Events), c.NextProbe)
	}
	f.settle(Settlement{Resumed: []string{AllTopics, "order.created"}})
	f.wantClaimed()
	f.resume(AllTopics)
	f.wantClaimed(ids...)
	if c := f.probe(); len(c.Events) != 1 {
		t.Errorf("%d probes", len(c.Events))
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
	f.settle(Settlement{Paused: map[string]string{"order.created": "no queue"}, Probe: true})
	f.wantClaimed()
	f.endPauses()
	f.wantEvents(f.probe())
	if held := f.int("SELECT count(*) FROM outbox_topics WHERE until = 'infinity' AND operator = 'somebody' AND reason = 'a test'"); held != 1 {
		t.Error("a relay has changed an operator's pause")
	}
	f.resume("order.created")
	f.wantClaimed(ids[1])
}

// TestDeletingTheRowOfATopicResumesIt, with the next claims.
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
	for range 3 { // the first one sees that a pause is gone, and the second one that events are halted
		_, err := f.store.Claim(t.Context(), "test", 10, lease)
		must(t, err)
	}
	f.wantHalted(2)
	if n := f.int("SELECT count(*) FROM outbox_claims"); n != 1 {
		t.Errorf("%d claims", n)
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
