package rabbitmq_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

// TestP5AcknowledgingTogetherSettlesOnlyWhatIsDone: in any order and at the same time, one
// frame may acknowledge several messages. It acknowledges none that is still out, and the
// broker accepts it.
func TestP5AcknowledgingTogetherSettlesOnlyWhatIsDone(t *testing.T) {
	t.Parallel()
	const messages, users = 300, 8
	for range 5 {
		b := newBrokerTest(t)
		// Not a quorum queue: it may lose acks if the channel is closed right after them.
		queue := b.queue(amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeClassic})
		ids := make([]string, messages)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		b.put(queue, ids...)
		c := b.consume(b.session(), queue, messages)
		deliveries := b.wantDeliveries(c, ids...)
		out := settleSome(t, deliveries, users)
		c.Close()

		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		again := b.consume(b.session(), queue, messages)
		for range len(out) {
			d, err := again.Next(ctx)
			if err != nil {
				t.Fatalf("%v, and %d messages have not come again", err, len(out))
			}
			if !out[d.ID] {
				t.Errorf("message %s was settled, and comes again", d.ID)
			}
			delete(out, d.ID)
		}
		if len(out) > 0 {
			t.Errorf("messages %v were not settled, and do not come again", slices.Sorted(maps.Keys(out)))
		}
		b.put(queue, "nothing else comes before it")
		b.wantDeliveries(again, "nothing else comes before it")
	}
}

// settleSome acknowledges or rejects most of the deliveries, side by side, and returns the
// others.
func settleSome(t *testing.T, deliveries []rabbitmq.Delivery, users int) (out map[string]bool) {
	t.Helper()
	out = map[string]bool{}
	var settling []func() error
	for _, d := range deliveries {
		switch rand.IntN(10) {
		case 0:
			out[d.ID] = true
		case 1:
			settling = append(settling, d.Reject)
		default:
			settling = append(settling, d.Ack)
		}
	}
	if rand.IntN(2) == 0 { // in half of the runs the order is about that of arrival
		rand.Shuffle(len(settling), func(i, j int) { settling[i], settling[j] = settling[j], settling[i] })
	}
	var all sync.WaitGroup
	next := make(chan func() error)
	for range users {
		all.Go(func() {
			for settle := range next {
				if err := settle(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, settle := range settling {
		next <- settle
	}
	close(next)
	all.Wait()
	return out
}
