package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

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
	drain := func(queues ...string) (events []judge.Event, unreadable int) {
		for _, queue := range queues {
			messages, drained := sys.broker.Drain(ctx, queue)
			err = errors.Join(err, drained)
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
		}
		return events, unreadable
	}
	waiting, poison := drain(workQueues...)
	dead, _ := drain(broker.DeadLetters)
	e.Waiting, e.DeadLetters, e.Poison = append(e.Waiting, waiting...), append(e.DeadLetters, dead...), poison
	e.Tap, _ = drain(broker.Tap)
	e.OtherService, _ = drain(otherService)
	e.Stalled = sys.stalled
	return e, err
}

// stored is a row of a table. A query returns some of its columns.
type stored struct {
	ID      string // of a message
	OrderID string
	Version int
	Status  string
}

func (s stored) event() judge.Event { return judge.Event{Order: s.OrderID, Version: s.Version} }

func rowsOf(ctx context.Context, db *pgxpool.Pool, query string) ([]stored, error) {
	rows, _ := db.Query(ctx, query) // CollectRows returns its error
	return pgx.CollectRows(rows, pgx.RowToStructByNameLax[stored])
}

// In this project the effect of a message is its row in the inbox. An event that comes after a
// newer one is recorded after it, and needs no e-mail. So the rows are sorted by version, and the
// order of the e-mails counts.
const (
	ordersOfAll       = "SELECT id::text AS order_id, version FROM orders"
	effectsOfDesigns  = "SELECT order_id::text, version FROM effects ORDER BY id"
	effectsOfProject  = "SELECT m.message_id AS id, coalesce(e.status, 'superseded') AS status FROM processed_messages m LEFT JOIN outbox_status e ON e.id::text = m.message_id"
	messagesOfProject = "SELECT id::text, aggregate_id AS order_id, version FROM outbox_events"
)

// readDatabases reads the rows, the answers of the clients, and the e-mails.
func (sys *system) readDatabases(ctx context.Context) (e judge.Evidence, err error) {
	versions := map[string]int{} // of each order, by the answers
	for _, a := range sys.load.Ledger() {
		if a.Outcome == load.Acknowledged {
			versions[a.OrderID]++
			e.Acknowledged = append(e.Acknowledged, judge.Event{Order: a.OrderID, Version: versions[a.OrderID]})
		}
	}
	orders, err := rowsOf(ctx, sys.orders, ordersOfAll)
	if err != nil {
		return e, err
	}
	for _, o := range orders {
		for version := 1; version <= o.Version; version++ {
			e.Stored = append(e.Stored, judge.Event{Order: o.OrderID, Version: version})
		}
	}
	outbox, err := rowsOf(ctx, sys.orders, sys.design.outbox)
	if err != nil {
		return e, err
	}
	for _, row := range outbox {
		addUnfinished(&e, row.Status, row.event())
	}
	byMessage := map[string]judge.Event{}
	if e.Mailed = sys.mails(); e.Mailed {
		messages, err := rowsOf(ctx, sys.orders, messagesOfProject)
		if err != nil {
			return e, err
		}
		for _, m := range messages {
			byMessage[m.ID] = m.event()
		}
		for _, m := range sys.mail.Mails() { // a Message-ID begins with the id of the message
			e.Mails = append(e.Mails, byMessage[checker.MessageID(m)])
		}
	}
	return e, sys.readEffects(ctx, &e, byMessage)
}

// readEffects reads the effects, and this project's outbox of e-mails.
func (sys *system) readEffects(ctx context.Context, e *judge.Evidence, byMessage map[string]judge.Event) error {
	ofProject, query := sys.design.name == thisProject, effectsOfDesigns
	if ofProject {
		query = effectsOfProject
	}
	effects, err := rowsOf(ctx, sys.effects, query)
	for _, row := range effects {
		event := row.event()
		if ofProject {
			event = byMessage[row.ID]
			addUnfinished(e, row.Status, event)
		}
		e.Effects = append(e.Effects, event)
	}
	if ofProject {
		slices.SortStableFunc(e.Effects, func(a, b judge.Event) int { return a.Version - b.Version })
	}
	return err
}

// addUnfinished adds an event of an outbox that has not been sent.
func addUnfinished(e *judge.Evidence, status string, event judge.Event) {
	switch status {
	case "pending", "processing", "in_progress":
		e.Waiting = append(e.Waiting, event)
	case "failed":
		e.DeadLetters = append(e.DeadLetters, event)
	case "superseded": // it needs no e-mail
		e.Superseded = append(e.Superseded, event)
	}
}

// longest limits the wait for a row in which something always moves.
const longest = 2 * time.Minute

// awaitFinished waits until no event is missing, or nothing moves any more. It returns the time of
// the last change. It asks the broker only when the answer matters, because that takes work away
// from the design.
func (sys *system) awaitFinished(ctx context.Context) (last time.Time, err error) {
	before := -1
	for began := time.Now(); time.Since(began) < longest; {
		e, err := sys.readDatabases(ctx)
		if err != nil {
			return last, err
		}
		missing := judge.Missing(e)
		if missing != before {
			last = time.Now()
		}
		before = missing
		if quiet := time.Since(last); missing == 0 || quiet > sys.design.patience/3 {
			queued, err := sys.broker.Ready(ctx, workQueues...)
			// In a design of the order side, what is missing is then in no outbox and in no queue.
			gone := missing == 0 || len(e.Waiting) == 0 && sys.design.side == orderSide
			if err != nil || gone && queued == 0 || quiet > sys.design.patience {
				return last, err
			}
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return last, err
		}
	}
	return last, nil
}

// stop stops all processes.
func (sys *system) stop(ctx context.Context) error {
	var stopping errgroup.Group
	for _, p := range sys.programs() {
		stopping.Go(func() error { return p.end(ctx, syscall.SIGTERM, 10*time.Second) })
	}
	return stopping.Wait()
}

func (sys *system) result(ctx context.Context, ended, finished time.Time) (r result, err error) {
	sys.closers[len(sys.closers)-1]() // no process is started again
	if err := sys.stop(ctx); err != nil {
		return r, err
	}
	e, err := sys.evidence(ctx)
	return result{judge.Judge(e), finished.Sub(ended).Seconds()}, err
}
