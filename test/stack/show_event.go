package main

import (
	"slices"
	"strings"
	"time"
)

// event is the state of one event of an order in both databases. A time is nil until it is known.
type event struct {
	messageID, topic, traceID string
	outboxStatus              string
	emailStatus               string // empty until the event is consumed
	failure                   string // why the broker or the mail server refused it

	committed time.Time
	published *time.Time
	consumed  *time.Time
	sent      *time.Time
}

// layer is one step of an event.
type layer struct {
	name   string
	at     *time.Time
	detail string
	hint   string // what to check while the event has not passed it
}

func (e *event) layers() []layer {
	return []layer{
		{name: "committed", at: &e.committed, detail: "trace " + e.traceID},
		{
			name: "published", at: e.published, detail: "topic " + e.topic + ", message " + e.messageID,
			hint: "does RabbitMQ run? See .stack/order-service.log, and outbox_backlog at http://127.0.0.1:4100/metrics",
		},
		{
			name: "consumed", at: e.consumed,
			hint: "does notification-service run? See .stack/notification-service.log",
		},
		{
			name: "e-mailed", at: e.sent, detail: strings.ReplaceAll(e.emailStatus, "published", "sent"),
			hint: "does the mail server answer? See .stack/notification-service.log",
		},
	}
}

// missing returns the first layer that the event has not passed, or nil.
func (e *event) missing() *layer {
	for _, l := range e.layers() {
		if l.at == nil && (l.name != "e-mailed" || !e.superseded()) {
			return &l
		}
	}
	return nil
}

// superseded reports whether the customer gets the e-mail of a newer event instead.
func (e *event) superseded() bool { return e.emailStatus == "superseded" }

// needsOperator reports whether the event waits for an operator.
func (e *event) needsOperator() bool {
	final := []string{"failed", "discarded"}
	return slices.Contains(final, e.outboxStatus) || slices.Contains(final, e.emailStatus)
}
