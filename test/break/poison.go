package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"
)

var poison = experiment{
	name:    "poison",
	breaks:  "Publishes a malformed message among valid ones.",
	promise: "the message ends in the dead-letter queue, unchanged and with the reason, and delays no other message (P9).",
	description: `The message comes from the outbox, as after a bug in order-service. You see that the e-mails of
the orders before and after it are sent, and the malformed message in
` + "`notification-service dlq list`" + `. In the end it is discarded.`,
	watch:  "http://localhost:4101/ counts the dead letter, until it is discarded; http://localhost:4101/audit shows who did that",
	result: "the malformed message is a dead letter with its reason, and every valid one arrived.",
	run: func(ctx context.Context, l *lab) error {
		l.step("place 5 orders, add an event with an invalid order_id, and place 5 more orders")
		if err := l.place(ctx, 5); err != nil {
			return err
		}
		bad, err := l.insertMalformed(ctx)
		if err != nil {
			return err
		}
		if err := l.place(ctx, 5); err != nil {
			return err
		}
		if err := l.awaitArrival(ctx); err != nil {
			return err
		}
		return l.verifyPoison(ctx, bad)
	},
}

// bad is the malformed message.
type malformedMessage struct {
	id      string
	body    string // as published
	discard func(context.Context) error
}

// insertMalformedSQL inserts an event directly, because the API creates valid events only.
const insertMalformedSQL = `
WITH event AS (
  INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type)
  SELECT $1, current, 'order', $2, 1, 'order.created', convert_to($3, 'UTF8'), 'application/json' FROM outbox_ring
  RETURNING *
), due AS (
  INSERT INTO outbox_queue (id, seq, slot, aggregate, aggregate_id, version, topic, bytes)
  SELECT id, seq, slot, aggregate, aggregate_id, version, topic, octet_length(payload) FROM event
)
SELECT outbox_text(payload) FROM event`

const poisonBody = `{"order_id": "not an id", "order_version": 1}`

func (l *lab) insertMalformed(ctx context.Context) (malformedMessage, error) {
	id := uuid.Must(uuid.NewV7()).String()
	b := malformedMessage{id: id, discard: l.registerUndo(func(ctx context.Context) error {
		deadLetter, err := l.deadLetter(ctx, id)
		if err == nil && deadLetter != nil {
			_, err = l.service(ctx, notificationService, "dlq", "discard", id)
		}
		return err
	})}
	err := l.orders.QueryRow(ctx, insertMalformedSQL, id, uuid.NewString(), poisonBody).Scan(&b.body)
	return b, err
}

// deadLetter is a dead letter, as dlq show --json prints it.
type deadLetter struct {
	ID      string          `json:"id"`
	Code    string          `json:"failure_code"`
	Reason  string          `json:"failure_reason"`
	Retries int             `json:"retry_count"`
	Size    int             `json:"size"`
	Body    json.RawMessage `json:"body"`
}

// deadLetter returns nil when there is none with this id.
func (l *lab) deadLetter(ctx context.Context, id string) (*deadLetter, error) {
	list, err := l.service(ctx, notificationService, "dlq", "list", "--json")
	if err != nil || !strings.Contains(list, id) {
		return nil, err
	}
	shown, err := l.service(ctx, notificationService, "dlq", "show", "--json", id)
	if err != nil {
		return nil, err
	}
	var found deadLetter
	return &found, json.Unmarshal([]byte(shown), &found)
}

func (l *lab) verifyPoison(ctx context.Context, b malformedMessage) error {
	l.step("look for it: notification-service dlq list")
	var found *deadLetter
	err := l.await(ctx, maxWait, func(ctx context.Context) (missing string, err error) {
		if found, err = l.deadLetter(ctx, b.id); err == nil && found == nil {
			missing = "the malformed message is not a dead letter"
		}
		return missing, err
	})
	if err != nil {
		return err
	}
	l.observe("%s  %s: %s", found.ID, found.Code, found.Reason)
	l.step("verify, and discard it")
	t, err := l.readOrders(ctx)
	if err != nil {
		return err
	}
	l.requireOneEach(t)
	l.requireDeadLetter(*found, b)
	return b.discard(ctx)
}

// requireDeadLetter requires the unchanged message with its reason.
func (l *lab) requireDeadLetter(found deadLetter, b malformedMessage) {
	l.requireEqual("retries of the malformed message", found.Retries, 0)
	l.requireTrue("it has the code malformed and a reason", found.Code == "malformed" && found.Reason != "")
	var body bytes.Buffer // dlq show prints JSON without spaces
	err := json.Compact(&body, []byte(b.body))
	l.requireTrue("its body is unchanged", err == nil && found.Size == len(b.body) && bytes.Equal(found.Body, body.Bytes()))
}
