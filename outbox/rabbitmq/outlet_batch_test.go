package rabbitmq

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"

	"example.com/transactional-outbox/outbox/publish"
)

// TestAnOutletPublishesWaitingRequestsTogether: up to the maximum, and each request gets its own
// answer.
func TestAnOutletPublishesWaitingRequestsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const waiting = maxOutletBatch + 10
		outlet, answers := NewOutlet(), make(chan bool, waiting)
		for n := range waiting {
			go func() {
				id := strconv.Itoa(n)
				err := outlet.Publish(t.Context(), Message{ID: id})
				answers <- err.Error() == id
			}()
		}
		for _, want := range []int{maxOutletBatch, 10} {
			synctest.Wait()
			batch := outlet.collectRequests(t.Context())
			if len(batch) != want {
				t.Errorf("a batch of %d, want %d", len(batch), want)
			}
			for _, r := range batch {
				r.reply <- publish.Result{Outcome: publish.Refused, Err: errors.New(r.message.ID)}
			}
		}
		for range waiting {
			if !<-answers {
				t.Error("a publisher got the answer of another")
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if batch := outlet.collectRequests(ended); len(batch) != 0 {
			t.Errorf("a batch of %d after the end", len(batch))
		}
	})
}
