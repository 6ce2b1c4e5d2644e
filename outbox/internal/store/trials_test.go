package store

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestP4AnotherTrialFollowsOneThatSaysNothing: it was not sent, or no destination could take it.
func TestP4AnotherTrialFollowsOneThatSaysNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	f.pause("order.created")
	f.wantClaimed()
	f.endPauses()
	c := f.trial()
	f.wantEvents(c, ids[0])
	f.settle(Settlement{
		Token: c.Token, End: true, Trial: true, TrialAgain: []string{"order.created", "unknown"},
		Failures: []Failure{{ID: ids[0], Final: true, Halt: true, Code: "too_large"}},
	})
	f.wantHalted(1)
	f.wantEvents(f.trial(), ids[1])
	f.hold("order.created")
	f.settle(Settlement{TrialAgain: []string{"order.created"}})
	f.wantEvents(f.trial())
}

// TestP4TopicsThatAnswerAreTriedBeforeSilentOnes: a trial of a silent topic takes a second.
func TestP4TopicsThatAnswerAreTriedBeforeSilentOnes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for topic, reason := range map[string]string{"silent": "no answer for 1s", "refused": "a nack"} {
		f.exec(manySQL, topic, 1)
		f.settle(Settlement{Paused: map[string]string{topic: reason}, FirstPause: time.Hour})
	}
	f.wantClaimed()
	f.exec("UPDATE outbox_topics SET until = now() - interval '1 minute' * CASE topic WHEN 'silent' THEN 2 ELSE 1 END")
	c, err := f.store.ClaimTrials(t.Context(), "test", 1, lease)
	if must(t, err); len(c.Events) != 1 || c.Events[0].Topic != "refused" {
		t.Errorf("%+v", c.Events)
	}
}

// TestATrialIsTheEventThatWasTriedLeast, and of these the oldest. No two replicas try the same
// topic.
func TestATrialIsTheEventThatWasTriedLeast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(3)
	f.pause("order.created")
	f.wantClaimed()
	f.wantEvents(f.trial()) // the pause is not over
	for i, want := range []uuid.UUID{ids[0], ids[1], ids[2], ids[0]} {
		f.endPauses()
		c := f.trial()
		f.wantEvents(c, want)
		f.wantEvents(f.trial()) // another replica
		if c.NextTrial == nil || *c.NextTrial < 1 {
			t.Errorf("the next trial is not planned for later")
		}
		isRefused := i%2 == 0 // or no queue is bound for it: it must not stand for its topic either
		if f.reschedule(c, Failure{ID: want, Counts: isRefused, Halt: !isRefused, Tried: !isRefused, Delay: time.Hour}) != 1 {
			t.Error("the trial is not held")
		}
		f.finish(c)
		f.exec(endBackOffs)
		f.wantClaimed() // halts it again
		f.wantHalted(3)
	}
}

// TestTrialsOfReplicasAreOfOtherTopics: they run at the same time, and together try each topic
// once.
func TestTrialsOfReplicasAreOfOtherTopics(t *testing.T) {
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
			c, err := f.store.ClaimTrials(t.Context(), "test", 3, lease)
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
		t.Errorf("%d trial events of %d topics, want 6 of 6", n, topics)
	}
}

// TestAPauseDoublesOnlyByTrials, and up to its cap.
func TestAPauseDoublesOnlyByTrials(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := Settlement{Paused: map[string]string{"x": "a test"}}
	for i, want := range []float64{1, 1, 1, 2, 4, 8, 10, 10} {
		s.Trial = i > 2
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

// TestAnEventWithoutAnswerIsHaltedAndStaysClaimed: no claim reads past it, and no other relay sends
// it. Its confirm still counts. When the lease ends, it is the topic's trial.
func TestAnEventWithoutAnswerIsHaltedAndStaysClaimed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(3)
	c := f.claim(2)
	f.settle(Settlement{Token: c.Token, Halted: ids, Paused: map[string]string{"order.created": "no answer"}, FirstPause: time.Hour})
	f.wantHalted(2) // the claim does not hold the third one
	f.endPauses()
	if p := f.trial(); len(p.Events) > 0 || p.NextTrial == nil || *p.NextTrial > 2 {
		t.Errorf("%d trial events, the next one in %v", len(p.Events), p.NextTrial)
	}
	f.settle(Settlement{Token: c.Token, Published: f.events(ids[0])})
	f.wantStatus("published", ids[0])
	f.endLeases()
	f.wantClaimed() // it ends the lease
	f.endPauses()
	f.wantEvents(f.trial(), ids[1])
}
