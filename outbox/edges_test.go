package outbox

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// TestP4ATopicThatTheOutboxHasForgottenIsSent: no event of it was halted, so the outbox has resumed it.
// The relay remembers the pause, and the events are suspects.
func TestP4ATopicThatTheOutboxHasForgottenIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(0)
		ids := events.append("a", 3)
		r := testRelay(events)
		r.topics.pause("a")
		for _, id := range ids {
			r.suspects.add(id, false, true)
		}
		stop := start(t, r, answerAll(publish.Confirmed))
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		if n := events.count("published"); n != len(ids) {
			t.Errorf("%d of %d published", n, len(ids))
		}
	})
}

// TestAWorkerHasABoundedNumberOfBytesInHand, however many events the window allows.
func TestAWorkerHasABoundedNumberOfBytesInHand(t *testing.T) {
	t.Parallel()
	w := &worker{Relay: testRelay(nil)}
	large := store.Event{ID: uuid.New(), Topic: "a", Payload: bytes.Repeat([]byte{'x'}, maxBytes)}
	w.hand.batches = []*batch{w.newBatch(t.Context(), store.Claim{Events: []store.Event{large}})}
	if w.hasRoom() {
		t.Error("it claims more")
	}
}
