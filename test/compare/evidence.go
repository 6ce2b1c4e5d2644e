package main

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/compare/judge"
	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/env/load"
)

// workQueues are the queues in which messages wait for a consumer.
var workQueues = append([]string{broker.Queue}, retryQueues...)

// evidence collects everything. The processes have ended, so a message is in a queue or nowhere.
func (sys *system) evidence(ctx context.Context) (e judge.Evidence, err error) {
	if e, err = sys.readDatabases(ctx); err != nil {
		return e, err
	}
	e.Stalled = sys.stalled
	tap, err := sys.broker.Drain(ctx, broker.Tap)
	if err != nil {
		return e, err
	}
	e.Tap, _ = parse(tap)
	for _, queue := range workQueues {
		waiting, err := sys.broker.Drain(ctx, queue)
		if err != nil {
			return e, err
		}
		events, unreadable := parse(waiting)
		e.Waiting, e.Poison = append(e.Waiting, events...), e.Poison+unreadable
	}
	dead, err := sys.broker.Drain(ctx, broker.DeadLetters)
	if err != nil {
		return e, err
	}
	events, _ := parse(dead)
	e.DeadLetters = append(e.DeadLetters, events...)
	if sys.fault.name != otherServiceFault {
		return e, nil
	}
	other, err := sys.broker.Drain(ctx, otherService)
	e.OtherService, _ = parse(other)
	return e, err
}

// parse returns the events of messages, and the number of messages that cannot be read.
func parse(messages []broker.Message) (events []judge.Event, unreadable int) {
	for _, m := range messages {
		var body struct {
			Order   string `json:"order_id"`
			Version int    `json:"order_version"`
		}
		if json.Unmarshal(m.Body, &body) != nil || body.Order == "" {
			unreadable++
			continue
		}
		events = append(events, judge.Event{Order: body.Order, Version: body.Version})
	}
	return events, unreadable
}

// In this project the effect of a message is its row in the inbox. An event that comes after a
// newer one is recorded after it, and needs no e-mail. So the rows are sorted by version, and the
// order of the e-mails counts.
const (
	effectsOfDesigns  = "SELECT order_id::text, version FROM effects ORDER BY id"
	effectsOfProject  = "SELECT message_id FROM processed_messages"
	emailsOfProject   = "SELECT id::text, status FROM outbox_status"
	messagesOfProject = "SELECT id::text, aggregate_id, version FROM outbox_events"
)

// readDatabases reads the rows, the answers of the clients, and the e-mails.
func (sys *system) readDatabases(ctx context.Context) (e judge.Evidence, err error) {
	kinds := map[string]int{} // the version of each order, by the answers
	for _, a := range sys.load.Ledger() {
		if a.Outcome == load.Acknowledged {
			kinds[a.OrderID]++
			e.Acknowledged = append(e.Acknowledged, judge.Event{Order: a.OrderID, Version: kinds[a.OrderID]})
		}
	}
	orders, err := events(ctx, sys.orders, "SELECT id::text, version FROM orders")
	if err != nil {
		return e, err
	}
	for _, o := range orders {
		for version := 1; version <= o.Version; version++ {
			e.Stored = append(e.Stored, judge.Event{Order: o.Order, Version: version})
		}
	}
	if err := sys.readOutbox(ctx, &e); err != nil {
		return e, err
	}
	byMessage, err := sys.messages(ctx)
	if err != nil {
		return e, err
	}
	if sys.design.name == thisProject {
		err = sys.readEffects(ctx, &e, byMessage)
	} else {
		e.Effects, err = events(ctx, sys.effects, effectsOfDesigns)
	}
	sys.readMails(&e, byMessage)
	return e, err
}

// messages returns the events of this project's messages.
func (sys *system) messages(ctx context.Context) (map[string]judge.Event, error) {
	byMessage := map[string]judge.Event{}
	if !sys.mails() {
		return byMessage, nil
	}
	rows, _ := sys.orders.Query(ctx, messagesOfProject) // ForEachRow returns its error
	var id string
	var event judge.Event
	_, err := pgx.ForEachRow(rows, []any{&id, &event.Order, &event.Version}, func() error {
		byMessage[id] = event
		return nil
	})
	return byMessage, err
}

// readEffects reads this project's inbox and its outbox of e-mails. A message without an e-mail is
// superseded.
func (sys *system) readEffects(ctx context.Context, e *judge.Evidence, byMessage map[string]judge.Event) error {
	statuses := map[string]string{}
	var id, status string
	rows, _ := sys.effects.Query(ctx, emailsOfProject)
	_, err := pgx.ForEachRow(rows, []any{&id, &status}, func() error {
		statuses[id] = status
		return nil
	})
	if err != nil {
		return err
	}
	rows, _ = sys.effects.Query(ctx, effectsOfProject)
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		event := byMessage[id]
		e.Effects = append(e.Effects, event)
		switch statuses[id] {
		case "", "superseded":
			e.Superseded = append(e.Superseded, event)
		case "failed":
			e.DeadLetters = append(e.DeadLetters, event)
		case "pending", "in_progress":
			e.Waiting = append(e.Waiting, event)
		}
		return nil
	})
	slices.SortStableFunc(e.Effects, func(a, b judge.Event) int { return a.Version - b.Version })
	return err
}

func (sys *system) readOutbox(ctx context.Context, e *judge.Evidence) error {
	rows, _ := sys.orders.Query(ctx, sys.design.outbox) // ForEachRow returns its error
	var event judge.Event
	var status string
	_, err := pgx.ForEachRow(rows, []any{&event.Order, &event.Version, &status}, func() error {
		switch status {
		case "pending", "processing", "in_progress":
			e.Waiting = append(e.Waiting, event)
		case "failed":
			e.DeadLetters = append(e.DeadLetters, event)
		}
		return nil
	})
	return err
}

// readMails finds the events of the e-mails: a Message-ID begins with the id of the message.
func (sys *system) readMails(e *judge.Evidence, byMessage map[string]judge.Event) {
	if e.Mailed = sys.mails(); !e.Mailed {
		return
	}
	for _, m := range sys.mail.Mails() {
		e.Mails = append(e.Mails, byMessage[checker.MessageID(m)])
	}
}

func events(ctx context.Context, db *pgxpool.Pool, query string) ([]judge.Event, error) {
	rows, _ := db.Query(ctx, query)
	return pgx.CollectRows(rows, pgx.RowToStructByPos[judge.Event])
}
