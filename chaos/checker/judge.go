package checker

import (
	"fmt"
	"slices"
)

// Report is the verdict in numbers, as Jepsen's queue checker gives it, and by promise.
type Report struct {
	Attempted    int // requests for an order
	Acknowledged int
	Lost         int // acknowledged or committed, and gone
	Unexpected   int // there, and caused by nobody
	Duplicated   int // copies on the tap beyond the first
	MailRepeats  int
	MailBound    int                 // of them, what the faults excuse
	Recovered    int                 // not acknowledged, and there all the same
	Broken       map[string][]string // by promise: what contradicts it
}

// Kept reports whether nothing contradicts any promise.
func (r Report) Kept() bool { return len(r.Broken) == 0 }

// Judge compares all evidence with all promises.
func Judge(e Evidence, allowed Allowance) Report {
	c := newCase(e, allowed)
	c.judgeOrders()
	c.judgeContents()
	c.judgeOutbox()
	c.judgeRoute()
	c.judgeSequence()
	c.judgeEffects()
	c.judgeMails()
	c.judgeDeadLetters()
	c.judgeTimes()
	c.judgeLeases()
	c.judgeExits()
	c.report.Lost, c.report.Unexpected = len(c.lost), len(c.unexpected)
	return c.report
}

// judgement is the work in hand.
type judgement struct {
	Evidence
	allowed          Allowance
	report           Report
	lost, unexpected map[string]bool

	orders        map[string]Order
	events        map[string]Event
	copies        map[string]int // on the tap
	mailed        map[string]int // e-mails of each message
	notifications map[string]Notification
	waiting, dead map[string]bool
}

func newCase(e Evidence, allowed Allowance) *judgement {
	c := &judgement{
		Evidence: e, allowed: allowed, report: Report{Broken: map[string][]string{}},
		lost: map[string]bool{}, unexpected: map[string]bool{},
		orders: map[string]Order{}, events: map[string]Event{}, copies: map[string]int{}, mailed: map[string]int{},
		notifications: map[string]Notification{}, waiting: idsOf(e.Waiting), dead: idsOf(e.DeadLetters),
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
		c.mailed[messageOf(m)]++
	}
	for _, n := range e.Notifications {
		c.notifications[n.ID] = n
	}
	return c
}

func idsOf(messages []Message) map[string]bool {
	ids := map[string]bool{}
	for _, m := range messages {
		ids[m.ID] = true
	}
	return ids
}

// breaks notes a contradiction. A few of each promise are enough for people.
func (c *judgement) breaks(promise, format string, args ...any) {
	c.report.Broken[promise] = append(c.report.Broken[promise], fmt.Sprintf(format, args...))
}

func (c *judgement) loses(promise, id, format string, args ...any) {
	c.lost[id] = true
	c.breaks(promise, format, args...)
}

func (c *judgement) surprises(promise, id, format string, args ...any) {
	c.unexpected[id] = true
	c.breaks(promise, format, args...)
}

func (c *judgement) unlessAtMost(promise string, got, bound int, what string) {
	if got > bound {
		c.breaks(promise, "%d %s, where the faults excuse %d", got, what, bound)
	}
}

// settled are the states of a notification from which nothing follows.
var settled = []string{"sent", "superseded", "rejected"}

func isSettled(status string) bool { return slices.Contains(settled, status) }
