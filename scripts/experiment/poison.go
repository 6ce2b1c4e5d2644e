package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"
)

var poison = experiment{
	name:   "poison",
	breaks: "Publishes a message that nobody can read, among good ones.",
	stake:  "it ends in the dead-letter queue, unchanged and with the reason, and holds up nobody (P9).",
	shows: `The message comes as it would after a mistake in order-service: from the outbox. You see the
orders before and behind it told of, and the bad message in ` + "`notification-service dlq list`" + `.
In the end it is discarded.`,
	kept: "the bad message is a dead letter with its reason, and every good one arrived.",
	run: func(ctx context.Context, l *lab) error {
		l.step("place 5 orders, an event whose order_id is no id, and 5 orders more")
		if err := l.place(ctx, 5); err != nil {
			return err
		}
		bad, err := l.plant(ctx)
		if err != nil {
			return err
		}
		if err := l.place(ctx, 5); err != nil {
			return err
		}
		if err := l.awaitArrival(ctx); err != nil {
			return err
		}
		return l.judgePoison(ctx, bad)
	},
}

// bad is a message that nobody can read.
type bad struct {
	id      string
	body    string // as it is published
	discard func(context.Context) error
}

// plantSQL writes what no order would: each event of the API's is checked.
const plantSQL = `
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
VALUES ($1, 'order', $2, 1, 'order.created', $3)
RETURNING payload::text`

const poisonBody = `{"order_id": "not an id", "order_version": 1}`

func (l *lab) plant(ctx context.Context) (bad, error) {
	id := uuid.Must(uuid.NewV7()).String()
	b := bad{id: id, discard: l.undoing(func(ctx context.Context) error {
		letter, err := l.deadLetter(ctx, id)
		if err == nil && letter != nil {
			_, err = l.service(ctx, notificationService, "dlq", "discard", id)
		}
		return err
	})}
	err := l.orders.QueryRow(ctx, plantSQL, id, uuid.NewString(), poisonBody).Scan(&b.body)
	return b, err
}

// letter is a dead letter, as dlq show --json prints it.
type letter struct {
	ID      string          `json:"id"`
	Code    string          `json:"failure_code"`
	Reason  string          `json:"failure_reason"`
	Retries int             `json:"retry_count"`
	Size    int             `json:"size"`
	Body    json.RawMessage `json:"body"`
}

// deadLetter returns nil when there is none with this id.
func (l *lab) deadLetter(ctx context.Context, id string) (*letter, error) {
	list, err := l.service(ctx, notificationService, "dlq", "list", "--json")
	if err != nil || !strings.Contains(list, id) {
		return nil, err
	}
	shown, err := l.service(ctx, notificationService, "dlq", "show", "--json", id)
	if err != nil {
		return nil, err
	}
	var found letter
	return &found, json.Unmarshal([]byte(shown), &found)
}

func (l *lab) judgePoison(ctx context.Context, b bad) error {
	l.step("look for it: notification-service dlq list")
	var found *letter
	err := l.await(ctx, patience, func(ctx context.Context) (missing string, err error) {
		if found, err = l.deadLetter(ctx, b.id); err == nil && found == nil {
			missing = "the bad message is no dead letter"
		}
		return missing, err
	})
	if err != nil {
		return err
	}
	l.see("%s  %s: %s", found.ID, found.Code, found.Reason)
	l.step("verify, and discard it")
	t, err := l.look(ctx)
	if err != nil {
		return err
	}
	l.wantOneEach(t)
	l.wantDead(*found, b)
	return b.discard(ctx)
}

// wantDead wants the bad message as it was, and the reason with it.
func (l *lab) wantDead(found letter, b bad) {
	l.want("retries that the bad message was given", found.Retries, 0)
	l.wantTrue("it is malformed, with the reason", found.Code == "malformed" && found.Reason != "")
	var body bytes.Buffer // dlq show prints JSON without spaces
	err := json.Compact(&body, []byte(b.body))
	l.wantTrue("its body is unchanged", err == nil && found.Size == len(b.body) && bytes.Equal(found.Body, body.Bytes()))
}
