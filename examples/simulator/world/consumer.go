package world

import (
	"slices"

	"github.com/google/uuid"
)

// consumer is a model of notification-service: it takes one message at a time.
type consumer struct {
	step    consumerStep
	message message
	inbox   []uuid.UUID // the rows of inbox_messages
	effects []effect    // the e-mails in its outbox
	noInbox bool        // it neither reads nor writes the inbox
}

// consumerStep is where the consumer is.
type consumerStep string

// The steps of the consumer.
const (
	idle      consumerStep = "idle"
	delivered consumerStep = "delivered" // before the transaction
	recorded  consumerStep = "recorded"  // before the acknowledgement
)

// effect is what a message becomes.
type effect struct {
	id        uuid.UUID
	overtaken bool // a newer event of the order had its effect before: there is no e-mail
}

// isDuplicate reports whether the inbox has the message already.
func (c *consumer) isDuplicate() bool { return !c.noInbox && slices.Contains(c.inbox, c.message.id) }

// recording is the label of record.
func (w *World) recording() string {
	switch {
	case w.consumer.noInbox:
		return "commit the effect"
	case w.consumer.isDuplicate():
		return "find it in the inbox, and do nothing"
	default:
		return "commit the inbox's row and the effect"
	}
}

// record is the transaction: the inbox's row and the effect are committed together.
func (w *World) record() {
	c := &w.consumer
	c.step = recorded
	if c.isDuplicate() {
		return
	}
	if !c.noInbox {
		c.inbox = append(c.inbox, c.message.id)
	}
	newer := func(e effect) bool {
		return w.events[e.id].order == w.events[c.message.id].order && w.events[e.id].version > w.events[c.message.id].version
	}
	c.effects = append(c.effects, effect{id: c.message.id, overtaken: slices.ContainsFunc(c.effects, newer)})
}

// killConsumer puts an unacknowledged message back where it was: at the head of the queue.
func (w *World) killConsumer() {
	if w.consumer.step != idle {
		back := w.consumer.message
		back.redelivered = true
		w.broker.queue = slices.Insert(w.broker.queue, 0, back)
	}
	w.consumer.step, w.consumer.message = idle, message{}
}
