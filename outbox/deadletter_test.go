package outbox

import (
	"slices"
	"testing"
	"testing/synctest"

	"example.com/transactional-outbox/outbox/publish"
)

// runUntilIdle publishes everything that is due, and stops.
func runUntilIdle(t *testing.T, r *Relay, broker publish.Session) {
	t.Helper()
	stop := start(t, r, broker)
	synctest.Wait()
	stop()
}

// answerWith answers events with this result, and appends dead letters to dead.
func answerWith(result publish.Result, dead *[]publish.Message) fakeBroker {
	return func(messages []publish.Message) []publish.Result {
		if messages[0].Destination == testConfig.DeadLetters {
			*dead = append(*dead, messages...)
			return []publish.Result{{Outcome: publish.Confirmed}}
		}
		return slices.Repeat([]publish.Result{result}, len(messages))
	}
}

func TestAFailedEventIsCopiedAndCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		id := events.pending[0].ID.String()
		r := testRelay(events)
		var dead []publish.Message
		runUntilIdle(t, r, answerWith(publish.Result{Outcome: publish.Invalid, Err: publish.ErrTooLarge}, &dead))
		if len(dead) != 1 || dead[0].ID != id || len(dead[0].Body) != 0 || dead[0].Headers["failure-code"] != "too_large" {
			t.Errorf("dead letters %+v, want one of %s without its body", dead, id)
		}
		if failed, copied := r.Stats().Failed, r.Stats().DeadLettered; failed != 1 || copied != 1 {
			t.Errorf("%v failed and %v copied are counted, want 1 and 1", failed, copied)
		}
	})
}

func TestAnEventWithALostLeaseIsNotFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		events.leaseLost = true
		r := testRelay(events)
		var dead []publish.Message
		runUntilIdle(t, r, answerWith(publish.Result{Outcome: publish.Invalid, Err: publish.ErrBadTopic}, &dead))
		if len(dead) != 0 || r.Stats().Failed != 0 {
			t.Errorf("%d dead letters and %v failed, want none", len(dead), r.Stats().Failed)
		}
		if lost := r.Stats().LeaseLost; lost != 1 {
			t.Errorf("%v lost leases are counted, want 1", lost)
		}
	})
}

func TestAnEventIsFailedEvenIfItsCopyIsNotPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		r := testRelay(events)
		runUntilIdle(t, r, answerAll(publish.Invalid))
		if events.count("failed") != 1 || r.Stats().DeadLettersFailed != 1 {
			t.Errorf("%d failed, %v without a copy, want 1 and 1", events.count("failed"), r.Stats().DeadLettersFailed)
		}
	})
}
