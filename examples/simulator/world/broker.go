package world

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/publish"
)

const deadLetters = "order.dead"

// broker has one queue for the events that the relays publish, and one for copies of failed events.
type broker struct {
	bound    bool               // to the exchange
	refuses  map[uuid.UUID]bool // the orders whose messages the queue does not take
	queue    []message
	received []uuid.UUID // every message that the queue has taken, in order
	dead     []uuid.UUID // copies of failed events
}

type message struct {
	id          uuid.UUID
	redelivered bool
}

// take is what the broker does with a batch. It answers for each message.
func (b *broker) take(messages []publish.Message) []publish.Result {
	results := make([]publish.Result, len(messages))
	for i, m := range messages {
		results[i] = b.takeOne(m)
	}
	return results
}

func (b *broker) takeOne(m publish.Message) publish.Result {
	id := uuid.MustParse(m.ID)
	switch {
	case m.Destination == deadLetters:
		b.dead = append(b.dead, id)
	case !b.bound:
		return publish.Result{Outcome: publish.Returned, Err: errors.New("no queue is bound for its topic")}
	case b.refuses[uuid.MustParse(m.Group)]:
		return publish.Result{Outcome: publish.Refused, Err: errors.New("the queue does not take it")}
	default:
		b.queue = append(b.queue, message{id: id})
		b.received = append(b.received, id)
	}
	return publish.Result{Outcome: publish.Confirmed}
}

// describe counts the answers of a batch, for example "2 confirmed, 1 refused".
func describe(results []publish.Result) string {
	names := map[publish.Outcome]string{publish.Confirmed: "confirmed", publish.Returned: "returned", publish.Refused: "refused"}
	var parts []string
	for _, outcome := range []publish.Outcome{publish.Confirmed, publish.Returned, publish.Refused} {
		n := 0
		for _, r := range results {
			if r.Outcome == outcome {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, names[outcome]))
		}
	}
	return strings.Join(parts, ", ")
}
