package store

import (
	"testing"
	"time"
)

// TestP4AnotherProbeFollowsOneThatSaysNothing: it was not sent, or no destination could take it.
func TestP4AnotherProbeFollowsOneThatSaysNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	f.pause("order.created")
	f.wantClaimed()
	f.endPauses()
	c := f.probe()
	f.wantEvents(c, ids[0])
	f.settle(Settlement{
		Token: c.Token, End: true, Probe: true, ProbeAgain: []string{"order.created", "unknown"},
		Failures: []Failure{{ID: ids[0], Final: true, Code: "too_large"}},
	})
	f.wantEvents(f.probe(), ids[1])
	f.hold("order.created")
	f.settle(Settlement{ProbeAgain: []string{"order.created"}})
	f.wantEvents(f.probe())
}

// TestP4AReturnedEventIsNotTheNextProbe: one event that no queue is bound for must not stand for its
// topic. It never fails.
func TestP4AReturnedEventIsNotTheNextProbe(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	f.pause("order.created")
	f.wantClaimed()
	for i := range 2 * LeastRefusals {
		f.endPauses()
		c := f.probe()
		f.wantEvents(c, ids[i%2])
		f.settle(Settlement{
			Token: c.Token, End: true, Probe: true, Paused: map[string]string{"order.created": "no queue"}, GiveUp: time.Nanosecond,
			Failures: []Failure{{ID: ids[i%2], Halt: true, Tried: true, Code: "unroutable"}},
		})
	}
	f.wantNone("SELECT count(*) FROM outbox_queue WHERE failed_at IS NOT NULL OR refused_since IS NOT NULL")
}

// TestP4TopicsThatAnswerAreTriedBeforeSilentOnes: a probe of a silent topic takes a second.
func TestP4TopicsThatAnswerAreTriedBeforeSilentOnes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for topic, reason := range map[string]string{"silent": "no answer for 1s", "refused": "a nack"} {
		f.exec(manySQL, topic, 1)
		f.settle(Settlement{Paused: map[string]string{topic: reason}, FirstPause: time.Hour})
	}
	f.wantClaimed()
	f.exec("UPDATE outbox_topics SET until = now() - interval '1 minute' * CASE topic WHEN 'silent' THEN 2 ELSE 1 END")
	c, err := f.store.ClaimProbes(t.Context(), "test", 1, lease)
	if must(t, err); len(c.Events) != 1 || c.Events[0].Topic != "refused" {
		t.Errorf("%+v", c.Events)
	}
}

// TestP4ATrialEventSupersedesItsOlderOnes: the newest one of its aggregate is tried.
func TestP4ATrialEventSupersedesItsOlderOnes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	older := f.append("a", 1)[0]
	f.pause("order.created")
	f.wantClaimed()
	newer, newest := f.supersede("a", 2, 0), f.supersede("a", 3, 0)
	elsewhere := f.append("b", 1)[0]
	f.wantClaimed()
	f.exec("INSERT INTO outbox_queue SELECT gen_random_uuid(), 100, slot, 2, aggregate, aggregate_id, 'other', 0 FROM outbox_queue WHERE id = $1", elsewhere)
	f.exec("UPDATE outbox_queue SET supersedes = true WHERE topic = 'other'")
	other := f.claim(10) // takes the place of the other trial event
	f.endPauses()
	c := f.probe()
	f.wantEvents(c, newest)
	if c.Superseded != 2 || other.Superseded != 1 {
		t.Errorf("%d and %d superseded", c.Superseded, other.Superseded)
	}
	f.wantStatus("superseded", older, newer)
	f.endPauses()
	f.wantEvents(f.probe())
}
