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

// TestP7AnOvertakenEventThatMayStillBeReadIsSent before the newer one: the destination would otherwise
// get it for the first time after the newer one.
func TestP7AnOvertakenEventThatMayStillBeReadIsSent(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]state{store.CodeNoAnswer: unsent, "refused": answered, "": answered} {
		w := &worker{Relay: testRelay(nil)}
		e := store.Event{ID: uuid.New(), Topic: "a", Overtaken: true, FailureCode: code}
		if got := w.newBatch(t.Context(), store.Claim{Events: []store.Event{e}}).items[0].state; got != want {
			t.Errorf("code %q: state %d, want %d", code, got, want)
		}
		w.oneByOne = true
		if got := w.newBatch(t.Context(), store.Claim{Events: []store.Event{e}}).items[0].state; got != answered {
			t.Errorf("code %q of a mail server: state %d", code, got)
		}
	}
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
