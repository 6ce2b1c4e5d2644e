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
		release := make(chan struct{})
		stop := start(t, r, fakeBroker(func(messages []publish.Message) []publish.Result {
			<-release
			return answerAll(publish.Confirmed)(messages)
		}))
		want(false, "with nothing to do")
		for range testConfig.Workers {
			events.append()
			r.Wake()
			want(false, "with an idle worker")
		}
		events.append()
		r.Wake()
		want(true, "while all workers wait for the broker")
		close(release)
		time.Sleep(2 * smallBatchPause)
		want(false, "when the broker has answered")
		stop()
	})
}
