package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// pause pauses a topic for an hour, as a relay does.
func (f fixture) pause(topic string) {
	f.Helper()
	f.settle(Settlement{Paused: map[string]string{topic: "a test"}, FirstPause: time.Hour})
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
	f.settle(Settlement{Resumed: []string{"away"}})
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

// TestDeletingTheRowOfATopicResumesIt: the janitor finds it, and looks at maxTopics topics at a time.
func TestDeletingTheRowOfATopicResumesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(manySQL, "away", 3)
	f.exec(manySQL, "further away", 2)
	f.pause("away")
	f.pause("further away")
	f.wantClaimed()
	f.wantHalted(5)
	f.exec(insertSQL("SELECT gen_random_uuid(), 1, 'order', gen_random_uuid()::text, 'b ' || i, '{}'::bytea FROM generate_series(1, $1::int) i", "'infinity'"), maxTopics)
	f.exec("UPDATE outbox_queue SET halted = true WHERE topic LIKE 'b %'")
	f.exec("INSERT INTO outbox_topics (topic, until, pause, reason) SELECT topic, 'infinity', 1, '' FROM outbox_queue WHERE topic LIKE 'b %'")
	f.exec("DELETE FROM outbox_topics WHERE topic IN ('away', 'further away')")
	must(t, f.store.resumeDeleted(t.Context()))
	for range 2 { // the first one sees that pauses are gone
		_, err := f.store.Claim(t.Context(), "test", 10, lease)
		must(t, err)
	}
	f.wantHalted(maxTopics)
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

// TestP9ATopicIsTriedBeforeItsDueEventsAreClaimed, also if they became due after the last claim.
func TestP9ATopicIsTriedBeforeItsDueEventsAreClaimed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.pause("order.created")
	f.wantClaimed()
	f.endPauses()
	ids := f.appendMany(3)
	f.wantEvents(f.probe())
	f.reset() // a full read
	f.wantClaimed()
	f.wantHalted(3)
	f.endPauses()
	f.wantEvents(f.probe(), ids[0])
}

// TestAnEventWithoutAnswerIsNoProbe while its claim holds it: a relay looks again after a second.
func TestAnEventWithoutAnswerIsNoProbe(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(1)
	f.settle(Settlement{Token: f.claim(1).Token, Halted: ids, Paused: map[string]string{"order.created": "no answer"}, FirstPause: time.Hour})
	f.endPauses()
	if c := f.probe(); len(c.Events) > 0 || c.NextProbe == nil || *c.NextProbe > 2 {
		t.Errorf("%d probes, the next one in %v", len(c.Events), c.NextProbe)
	}
}

// TestP4TopicsThatAnswerAreTriedBeforeSilentOnes: a probe of a silent topic takes a second. It gets one
// probe, and the others as many as there is room for.
func TestP4TopicsThatAnswerAreTriedBeforeSilentOnes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for topic, reason := range map[string]string{"silent": "no answer for 1s", "refused": "a nack"} {
		f.exec(manySQL, topic, 5)
		f.settle(Settlement{Paused: map[string]string{topic: reason}, FirstPause: time.Hour})
	}
	f.wantClaimed()
	f.exec("UPDATE outbox_topics SET until = now() - interval '1 minute' * CASE topic WHEN 'silent' THEN 2 ELSE 1 END")
	if c := f.probe(); len(c.Events) != 1 || c.Events[0].Topic != "refused" {
		t.Errorf("%+v", c.Events)
	}
	f.endPauses()
	c, err := f.store.ClaimProbes(t.Context(), "test", 8, lease)
	must(t, err)
	slices.SortFunc(c.Events, func(a, b Event) int { return strings.Compare(a.Topic, b.Topic) })
	if n := len(c.Events); n != 5 || c.Events[3].Topic != "refused" || c.Events[4].Topic != "silent" {
		t.Errorf("%d probes: %+v", n, c.Events)
	}
}

// TestAProbeIsTheEventThatWasTriedLeast, and of these the oldest.
func TestAProbeIsTheEventThatWasTriedLeast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(3)
	f.pause("order.created")
	f.wantClaimed()
	for i, want := range []uuid.UUID{ids[0], ids[1], ids[2], ids[0]} {
		f.endPauses()
		c := f.probe()
		f.wantEvents(c, want)
		isRefused := i%2 == 0 // or no queue is bound for it: it must not stand for its topic either
		if f.reschedule(c, Failure{ID: want, Counts: isRefused, Halt: !isRefused, Tried: !isRefused, Delay: time.Hour}) != 1 {
			t.Error("the probe is not held")
		}
		f.finish(c)
		f.exec(endBackOffs)
		f.wantClaimed() // halts it again
		f.wantHalted(3)
	}
}

// TestProbesOfReplicasAreOfOtherTopics: they run at the same time, and together try each topic
// once.
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
