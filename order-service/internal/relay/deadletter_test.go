package relay

import (
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/internal/publish"
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
		results := make([]publish.Result, len(messages))
		for i := range results {
			results[i] = result
		}
		return results
	}
}

func TestAFailedEventIsCopiedAndCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		id := events.pending[0].String()
		r := newRelay(events)
		var dead []publish.Message
		runUntilIdle(t, r, answerWith(publish.Result{Outcome: publish.Invalid, Err: publish.ErrTooLarge}, &dead))
		if len(dead) != 1 || dead[0].ID != id || len(dead[0].Body) != 0 || dead[0].Headers["failure-code"] != "too_large" {
			t.Errorf("dead letters %+v, want one of %s without its body", dead, id)
		}
		if failed, copied := testutil.ToFloat64(r.metrics.failed), testutil.ToFloat64(r.metrics.deadLettered); failed != 1 || copied != 1 {
			t.Errorf("%v failed and %v copied are counted, want 1 and 1", failed, copied)
		}
	})
}

func TestAnEventWithALostLeaseIsNotFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		events.leaseLost = true
		r := newRelay(events)
		var dead []publish.Message
		runUntilIdle(t, r, answerWith(publish.Result{Outcome: publish.Invalid, Err: publish.ErrBadKey}, &dead))
		if len(dead) != 0 || testutil.ToFloat64(r.metrics.failed) != 0 {
			t.Errorf("%d dead letters and %v failed, want none", len(dead), testutil.ToFloat64(r.metrics.failed))
		}
		if lost := testutil.ToFloat64(r.metrics.leaseLost); lost != 1 {
			t.Errorf("%v lost leases are counted, want 1", lost)
		}
	})
}

func TestAnEventIsFailedEvenIfItsCopyIsNotPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		r := newRelay(events)
		runUntilIdle(t, r, answerAll(publish.Invalid))
		if events.count("failed") != 1 || testutil.ToFloat64(r.metrics.deadLetterFailed) != 1 {
			t.Errorf("%d failed, %v without a copy, want 1 and 1", events.count("failed"), testutil.ToFloat64(r.metrics.deadLetterFailed))
		}
	})
}
