package outbox

import (
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// TestARelayIsBusyUntilAWorkerReceivesTheWakeUp: meanwhile the relay of another process may
// publish the events.
func TestARelayIsBusyUntilAWorkerReceivesTheWakeUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(0)
		r := testRelay(events)
		want := func(busy bool, when string) {
			t.Helper()
			synctest.Wait()
			if r.busy() != busy {
				t.Errorf("busy is %t, want %t, %s", !busy, busy, when)
			}
		}
		r.Wake()
		want(true, "without a session")
		broker := &slowBroker{}
		stop := start(t, r, broker)
		want(false, "with nothing to do")
		for range (testConfig.Window + 1) / 2 {
			events.append("a", 1)
			r.Wake()
			want(false, "with room in the window")
			time.Sleep(smallBatchPause)
		}
		events.append("a", 1)
		r.Wake()
		want(true, "while half of the window waits for the broker")
		broker.answer(publish.Result{Outcome: publish.Confirmed})
		time.Sleep(2 * smallBatchPause)
		want(false, "when the broker has answered")
		stop()
	})
}
