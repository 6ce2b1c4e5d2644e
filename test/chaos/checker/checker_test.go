package checker_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/env/load"
	"example.com/transactional-outbox/test/env/mailserver"
)

// order is the evidence of one order with two events in a healthy system. The first e-mail was sent
// before the second event.
func order(n int) checker.Evidence {
	id, first, second := fmt.Sprint("order-", n), fmt.Sprint("event-", n, "-1"), fmt.Sprint("event-", n, "-2")
	email := fmt.Sprint(n, "@load.example")
	attempt := load.Attempt{
		Email: email, OrderID: id, Product: product(n), Quantity: n + 1, Amount: amount(n), Currency: "GBP",
		Outcome: load.Acknowledged,
	}
	placed, confirmed := attempt, attempt
	placed.Kind, confirmed.Kind = load.Place, load.Confirm
	return checker.Evidence{
		Attempts: []load.Attempt{placed, confirmed},
		Orders:   []checker.Order{{ID: id, Email: email, Version: 2}},
		Events: []checker.Event{
			{ID: first, OrderID: id, Version: 1, Key: "order.created", Status: "published", Payload: `{"a": 1}`},
			{ID: second, OrderID: id, Version: 2, Key: "order.confirmed", Status: "published", Payload: `{"a": 2}`},
		},
		Tap: []broker.Message{
			{ID: first, Key: "order.created", Body: []byte(`{"a":1}`)},
			{ID: second, Key: "order.confirmed", Body: []byte(`{"a":2}`)},
		},
		Recorded: []string{first, second},
		Emails: []checker.Email{
			{ID: first, OrderID: id, Version: 1, Status: "published"},
			{ID: second, OrderID: id, Version: 2, Status: "published"},
		},
		Mails: []mailserver.Mail{
			mail(first, email, "received", n), mail(second, email, "confirmed", n),
		},
		Exits: []checker.Exit{{Name: "order-service", Took: time.Second}},
		Times: []checker.Time{{Where: "orders.created_at", At: began}, {Where: "outbox_queue.available_at", At: ended.Add(time.Second)}},
	}
}

// The scenario's begin and end.
var (
	began = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	ended = began.Add(time.Minute)
)

// lease is the length of the relays' leases.
const lease = 9 * time.Second

// healthy is the evidence of three orders. One event was claimed again after its lease had ended.
func healthy() (all checker.Evidence) {
	for n := range 3 {
		e := order(n)
		all.Attempts = append(all.Attempts, e.Attempts...)
		all.Orders = append(all.Orders, e.Orders...)
		all.Events = append(all.Events, e.Events...)
		all.Tap = append(all.Tap, e.Tap...)
		all.Recorded = append(all.Recorded, e.Recorded...)
		all.Emails = append(all.Emails, e.Emails...)
		all.Mails = append(all.Mails, e.Mails...)
		all.Exits = append(all.Exits, e.Exits...)
		all.Times = append(all.Times, e.Times...)
	}
	all.Began, all.Ended = began, ended
	all.Reclaims = []time.Duration{lease}
	return all
}

func TestAHealthySystemKeepsItsPromises(t *testing.T) {
	t.Parallel()
	r := checker.Check(healthy(), checker.Allowance{Lease: lease})
	if !r.Kept() || r.Attempted != 6 || r.Acknowledged != 6 || r.Lost != 0 || r.Unexpected != 0 || r.Duplicated != 0 {
		t.Errorf("%+v", r)
	}
}

// defect is one change of the evidence, and the violation that the checker must report.
type defect struct {
	name       string
	do         func(*checker.Evidence)
	allowed    checker.Allowance
	promises   string // the broken promises
	lost       int
	unexpected int
	duplicated int
}

func TestEveryDefectIsSeen(t *testing.T) {
	t.Parallel()
	for _, d := range slices.Concat(orderDefects, outboxDefects, effectDefects, mailDefects, deadLetterDefects, clockDefects) {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			e := healthy()
			d.do(&e)
			r := checker.Check(e, d.allowed)
			if got := strings.Join(slices.Sorted(maps.Keys(r.Broken)), " "); got != d.promises {
				t.Errorf("broken promises %q, want %q: %v", got, d.promises, r.Broken)
			}
			if r.Lost != d.lost || r.Unexpected != d.unexpected || r.Duplicated != d.duplicated {
				t.Errorf("%d lost, %d unexpected, %d duplicated; want %d, %d, %d",
					r.Lost, r.Unexpected, r.Duplicated, d.lost, d.unexpected, d.duplicated)
			}
		})
	}
}

func TestWhatTheFaultsExcuseIsNoDefect(t *testing.T) {
	t.Parallel()
	malformed := broker.Message{ID: "bad", Key: "order.created", Body: []byte("{"), Headers: map[string]any{"failure-reason": "no JSON"}}
	for name, test := range map[string]struct {
		do      func(*checker.Evidence)
		allowed checker.Allowance
	}{
		"copies":         {func(e *checker.Evidence) { e.Tap = append(e.Tap, e.Tap[0]) }, checker.Allowance{Duplicates: 1}},
		"e-mails":        {func(e *checker.Evidence) { repeat(e, 0, 1) }, checker.Allowance{Mails: 1, MailsEach: 1}},
		"refusals":       {func(e *checker.Evidence) { e.Events[0].RetryCount = 3 }, checker.Allowance{Refusals: true}},
		"an unbound tap": {func(e *checker.Evidence) { e.Tap = e.Tap[1:] }, checker.Allowance{TapGap: true}},
		"a malformed message": {func(e *checker.Evidence) {
			e.Tap, e.DeadLetters = append(e.Tap, malformed), append(e.DeadLetters, malformed)
		}, checker.Allowance{Malformed: map[string]broker.Message{"bad": malformed}}},
		"an e-mail repeated after a cut": {func(e *checker.Evidence) {
			repeat(e, 0, 1)
			e.Mails[0].Cut = true
		}, checker.Allowance{}},
		"one e-mail cut twice, another one repeated after a kill": {func(e *checker.Evidence) {
			repeat(e, 0, 2)
			e.Mails[0].Cut, e.Mails[1].Cut = true, true
			repeat(e, 3, 1)
		}, checker.Allowance{Mails: 1, MailsEach: 1}},
		"superseded": {func(e *checker.Evidence) {
			e.Emails[0].Status, e.Mails = "superseded", e.Mails[1:]
		}, checker.Allowance{}},
		"superseded before it had an e-mail": {func(e *checker.Evidence) {
			e.Emails, e.Mails = e.Emails[1:], e.Mails[1:]
		}, checker.Allowance{}},
		"superseded by a sent and by a superseded e-mail": {func(e *checker.Evidence) {
			addVersion(e, 3)
			e.Emails[4].Status, e.Emails[5].Status, e.Mails = "superseded", "superseded", drop(drop(e.Mails, 5), 4)
		}, checker.Allowance{}},
		"a request without an answer, and then repeated": {func(e *checker.Evidence) {
			before := e.Attempts[0]
			before.Outcome, before.OrderID, before.Amount, before.Currency = load.Unknown, "", 0, ""
			e.Attempts = slices.Insert(e.Attempts, 0, before)
		}, checker.Allowance{}},
		"a request that was not sent, and then repeated": {func(e *checker.Evidence) {
			before := e.Attempts[0]
			before.Outcome = load.NotSent
			e.Attempts = slices.Insert(e.Attempts, 0, before)
		}, checker.Allowance{}},
		"a duplicate in the service's own queue": {func(e *checker.Evidence) {
			again := e.Tap[5]
			again.Queue = "notification-service"
			e.Waiting = append(e.Waiting, again)
		}, checker.Allowance{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := healthy()
			test.do(&e)
			if r := checker.Check(e, test.allowed); !r.Kept() {
				t.Errorf("%v", r.Broken)
			}
		})
	}
}
