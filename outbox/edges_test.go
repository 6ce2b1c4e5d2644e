package outbox

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// TestP4ATopicThatTheOutboxHasForgottenIsSent: no event of it was halted, so the outbox has resumed it.
// The relay remembers the pause, and the events may have ended a publisher.
func TestP4ATopicThatTheOutboxHasForgottenIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(0)
		ids := events.append("a", 3)
		r := testRelay(events)
		r.topics.pause("a")
		for _, id := range ids {
			r.losses.add(id, false, true, time.Time{})
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

// TestARelayHasABoundedNumberOfBytesInFlight, however many events the windows of its workers allow, and
// although nothing is answered.
func TestARelayHasABoundedNumberOfBytesInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, config := newFakeOutbox(0), testConfig
		config.Workers, config.Window = 2, 1000
		large := make([]byte, maxPayload)
		for range 40 { // as many topics, so that no pause helps
			const perClaim = store.MaxClaimBytes / maxPayload
			events.pending = append(events.pending, slices.Repeat([]store.Event{{Topic: uuid.NewString(), Payload: large}}, perClaim)...)
		}
		for i := range events.pending {
			events.pending[i].ID = uuid.New()
		}
		events.most = store.MaxClaimBytes
		r := relayWith(config, events)
		stop := start(t, r, &slowBroker{})
		for range 100 {
			time.Sleep(config.ConfirmTimeout / 20)
			synctest.Wait()
			if n := r.bytes.Load(); n > maxBytes {
				t.Fatalf("%d bytes are in flight", n)
			}
		}
		stop()
		if n := r.bytes.Load(); n != 0 {
			t.Errorf("%d bytes are left at the end", n)
		}
	})
}
