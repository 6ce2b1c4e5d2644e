package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/env/load"
	"example.com/transactional-outbox/test/env/mailserver"
)

// restoreDatabases takes a backup of both databases while messages and e-mails wait, lets all of
// these go out, and kills the server. Then it takes the steps of the runbook's chapter "A database
// was restored" for both databases, but those for what operators have discarded.
func (sys *system) restoreDatabases(ctx context.Context) error {
	before, err := sys.backUp(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(sys.requireAllPublished(ctx), sys.requireAllEffects(ctx, "P5", "after the backup")); err != nil {
		return err
	}
	if err := sys.postgres.Kill(); err != nil { //nolint:contextcheck // it is fast, and never interrupted
		return err
	}
	orders, notifications := sys.orderServices[0], sys.notificationServices[0]
	pause := []string{"outbox", "pause", "*", "--reason", "the database was restored"}
	for _, step := range []func() error{
		func() error { return sys.stop(ctx) },
		sys.postgres.Restore,
		func() error { return sys.postgres.Start(ctx) },
		func() error { // these connections are those of the killed server
			sys.orderDB.Reset()
			sys.notificationDB.Reset()
			return nil
		},
		func() error { return sys.runCommand(ctx, orders, pause...) },
		func() error { return sys.runCommand(ctx, notifications, pause...) },
		func() error { return sys.rememberLost(ctx, before) },
		func() error { return sys.start(ctx) },
		func() error { return sys.runCommand(ctx, orders, "outbox", "republish", "--since", "1h") },
		func() error { return sys.runCommand(ctx, orders, "outbox", "resume", "*") },
		func() error { return sys.requireAllPublished(ctx) },
		func() error { return sys.requireAllRecorded(ctx) },
		func() error { return sys.discardSent(ctx) },
		func() error { return sys.runCommand(ctx, notifications, "outbox", "resume", "*") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return sys.requireWork(ctx)
}

// backUp takes the backup while no e-mail is answered, no message reaches the consumers, and then no
// event reaches the broker. It returns the number of requests before the backup began.
func (sys *system) backUp(ctx context.Context) (requests int, err error) {
	sys.mail.SetFault(mailserver.Fault{HoldData: true})
	defer sys.mail.SetFault(mailserver.Fault{})
	if err := errors.Join(sys.awaitHeld(ctx, 1), sleep(ctx, sys.scaled(2*time.Second))); err != nil {
		return 0, err
	}
	sys.allowed.Refusals = true // there is no answer in time
	for _, proxies := range []*[replicas]nodeProxies{&sys.notifyToBroker, &sys.ordersToBroker} {
		for _, p := range proxies {
			p.Stall()
			defer p.Resume()
		}
		if err := sleep(ctx, sys.scaled(2*time.Second)); err != nil {
			return 0, err
		}
	}
	return len(sys.load.Ledger()), sys.postgres.BackUp(ctx)
}

// rememberLost remembers the customers with a request since the backup began. Nobody promises them
// anything. Each event that is left may be published a second time.
func (sys *system) rememberLost(ctx context.Context, before int) error {
	sys.lost, sys.sent = map[string]bool{}, map[string]bool{}
	for _, a := range sys.load.Ledger()[before:] {
		sys.lost[a.Email] = true
	}
	return sys.allowRepeatsSince(ctx, time.Time{})
}

// requireAllRecorded requires that the consumers know all events that are published now. Their
// e-mails may wait.
func (sys *system) requireAllRecorded(ctx context.Context) error {
	ids, err := sys.publishedIDs(ctx)
	if err != nil {
		return err
	}
	return sys.requireMessages(ctx, recordedSQL, ids, "P5", "after the events were published again")
}

// discardSent discards the e-mails that wait although the mail server has them, and the older ones
// of their orders: after the newer one, these would be wrong.
func (sys *system) discardSent(ctx context.Context) error {
	service := sys.notificationServices[0]
	if err := sys.awaitClaims(ctx); err != nil {
		return err
	}
	list, err := sys.readCommand(ctx, service, "outbox", "list", "--status", "pending", "--limit", "10000", "--json")
	if err != nil {
		return err
	}
	type email struct {
		ID      string
		Order   string `json:"aggregate_id"`
		Version int
	}
	var waiting []email
	for line := range bytes.Lines(list) {
		var e email
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		waiting = append(waiting, e)
	}
	for _, m := range sys.mail.Mails() {
		sys.sent[checker.MessageID(m)] = true
	}
	newest := map[string]int{}
	for _, e := range waiting {
		if sys.sent[e.ID] {
			newest[e.Order] = max(newest[e.Order], e.Version)
		}
	}
	discard := []string{"outbox", "discard"}
	for _, e := range waiting {
		if e.Version <= newest[e.Order] {
			discard = append(discard, e.ID)
		}
	}
	sys.note("%d e-mails waited, and %d of them were discarded", len(waiting), len(discard)-2)
	return sys.runCommand(ctx, service, discard...)
}

// awaitClaims waits until no e-mail is in progress: the backup has claims.
func (sys *system) awaitClaims(ctx context.Context) error {
	left, err := sys.awaitNothing(ctx, func() (left string, err error) {
		err = sys.notificationDB.QueryRow(ctx, "SELECT coalesce(min(worker), '') FROM outbox_claims WHERE until > now()").Scan(&left)
		return left, err
	})
	if left != "" {
		err = errors.Join(err, fmt.Errorf("%s still has e-mails", left))
	}
	return err
}

// leaveOutLost removes the lost customers from the evidence. A discarded e-mail counts as what it
// was before the restore: published, if it was sent, or else superseded. So does one that was sent
// and has no row now: after the restore, a newer event of its order came in the same batch.
func (sys *system) leaveOutLost(e *checker.Evidence) {
	if sys.lost == nil {
		return
	}
	gone := map[string]bool{} // ids of messages
	ofLost := func(id string, content []byte) bool {
		var about struct {
			Customer string `json:"customer_email"`
		}
		_ = json.Unmarshal(content, &about) // a malformed message is nobody's
		gone[id] = gone[id] || sys.lost[about.Customer]
		return sys.lost[about.Customer]
	}
	message := func(m broker.Message) bool { return ofLost(m.ID, m.Body) }
	e.Tap, e.Waiting, e.DeadLetters = slices.DeleteFunc(e.Tap, message), slices.DeleteFunc(e.Waiting, message), slices.DeleteFunc(e.DeadLetters, message)
	e.Events = slices.DeleteFunc(e.Events, func(v checker.Event) bool { return ofLost(v.ID, []byte(v.Payload)) })
	e.Attempts = slices.DeleteFunc(e.Attempts, func(a load.Attempt) bool { return sys.lost[a.Email] })
	e.Orders = slices.DeleteFunc(e.Orders, func(o checker.Order) bool { return sys.lost[o.Email] })
	e.Mails = slices.DeleteFunc(e.Mails, func(m mailserver.Mail) bool { return sys.lost[m.To] })
	e.Recorded = slices.DeleteFunc(e.Recorded, func(id string) bool { return gone[id] })
	e.Emails = slices.DeleteFunc(e.Emails, func(m checker.Email) bool { return gone[m.ID] })

	rows := map[string]bool{}
	for i, m := range e.Emails {
		rows[m.ID] = true
		if m.Status == "discarded" {
			sys.injected++
			e.Emails[i].Status = map[bool]string{true: "published", false: "superseded"}[sys.sent[m.ID]]
		}
	}
	for _, v := range e.Events {
		if sys.sent[v.ID] && !rows[v.ID] {
			sys.injected++
			e.Emails = append(e.Emails, checker.Email{ID: v.ID, OrderID: v.OrderID, Version: v.Version, Status: "published"})
		}
	}
}
