package checker

import (
	"fmt"
	"time"

	"example.com/transactional-outbox/test/env/broker"
)

// Allowance is what the injected faults permit. The zero value permits nothing.
type Allowance struct {
	Duplicates int // copies on the tap after the first copy of each event
	// Mails is the number of repeated e-mails. It excludes repeats after the server cut the
	// connection. MailsEach limits the repeats of one e-mail: a process that dies repeats several
	// e-mails, each of them once.
	Mails, MailsEach int
	// Refusals says that the broker refuses or returns events, or gives no answer on a connection that
	// stays open. All are in retry_count. A lost connection is not.
	Refusals bool
	// TapGap says that the tap was unbound for a while. An event that another queue received
	// counts as routed then.
	TapGap bool
	// Lease is the length of the relays' leases.
	Lease time.Duration
	// Malformed are the malformed messages of the scenario, by id. They must become dead letters.
	Malformed map[string]broker.Message
}

// Report has the counts of Jepsen's queue checker, and the violations of each promise.
type Report struct {
	Attempted    int // requests
	Acknowledged int
	Lost         int // acknowledged or committed, and missing
	Unexpected   int // present without a cause
	Duplicated   int // copies on the tap after the first one
	MailRepeats  int
	MailBound    int                 // the permitted MailRepeats
	Broken       map[string][]string // violations, by promise
}

// Kept reports whether there is no violation.
func (r Report) Kept() bool { return len(r.Broken) == 0 }

// Check compares the evidence with every promise.
func Check(e Evidence, allowed Allowance) Report {
	c := newCheck(e, allowed)
	c.checkOrders()
	c.checkContents()
	c.checkOutbox()
	c.checkRoute()
	c.checkSequence()
	c.checkEffects()
	c.checkMails()
	c.checkMailSequence()
	c.checkDeadLetters()
	c.checkTimes()
	c.checkLeases()
	c.checkExits()
	c.report.Lost, c.report.Unexpected = len(c.lost), len(c.unexpected)
	return c.report
}

// CheckOutbox compares the evidence of any program that has orders and an outbox with what an outbox
// promises. Recorded are the messages that its destination has accepted.
func CheckOutbox(e Evidence, allowed Allowance) Report {
	c := newCheck(e, allowed)
	c.checkOrders()
	c.checkContents()
	c.checkOutbox()
	c.checkRoute()
	c.checkSequence()
	c.checkExits()
	c.report.Lost, c.report.Unexpected = len(c.lost), len(c.unexpected)
	return c.report
}

// check is one run of all checks.
type check struct {
	Evidence
	allowed          Allowance
	report           Report
	lost, unexpected map[string]bool

	orders        map[string]Order
	events        map[string]Event
	copies        map[string]int // on the tap, by event
	mailed        map[string]int // e-mails, by message
	emails        map[string]Email
	recorded      map[string]bool
	waiting, dead map[string]bool
}

func newCheck(e Evidence, allowed Allowance) *check {
	c := &check{
		Evidence: e, allowed: allowed, report: Report{Broken: map[string][]string{}},
		lost: map[string]bool{}, unexpected: map[string]bool{},
		orders: map[string]Order{}, events: map[string]Event{}, copies: map[string]int{}, mailed: map[string]int{},
		emails: map[string]Email{}, recorded: map[string]bool{}, waiting: idsOf(e.Waiting), dead: idsOf(e.DeadLetters),
	}
	for _, o := range e.Orders {
		c.orders[o.ID] = o
	}
	for _, v := range e.Events {
		c.events[v.ID] = v
	}
	for _, m := range e.Tap {
		c.copies[m.ID]++
	}
	for _, m := range e.Mails {
		c.mailed[MessageID(m)]++
	}
	for _, m := range e.Emails {
		c.emails[m.ID] = m
	}
	for _, id := range e.Recorded {
		c.recorded[id] = true
	}
	return c
}

func idsOf(messages []broker.Message) map[string]bool {
	ids := map[string]bool{}
	for _, m := range messages {
		ids[m.ID] = true
	}
	return ids
}

func (c *check) violation(promise, format string, args ...any) {
	c.report.Broken[promise] = append(c.report.Broken[promise], fmt.Sprintf(format, args...))
}

func (c *check) reportLost(promise, id, format string, args ...any) {
	c.lost[id] = true
	c.violation(promise, format, args...)
}

func (c *check) reportUnexpected(promise, id, format string, args ...any) {
	c.unexpected[id] = true
	c.violation(promise, format, args...)
}

func (c *check) requireAtMost(promise string, got, bound int, what string) {
	if got > bound {
		c.violation(promise, "%d %s, and the faults permit %d", got, what, bound)
	}
}
