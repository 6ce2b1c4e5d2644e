package checker

import (
	"fmt"
	"slices"
)

// Forgotten is what an asynchronous standby did not have when it became the primary.
type Forgotten struct {
	Orders map[string]int   // the old primary's version of each order that is missing or older
	Kept   map[string]int   // the new primary's version of these orders; 0: missing
	Events map[string]Event // that are missing
	Marks  int              // events whose status is older, for example not yet published
	Emails []Email          // that are missing or have another state
	// Replicated is the number of attempts that had ended when the standby still had everything.
	Replicated int
}

// Difference returns what the standby did not have. No transaction may run on either server when
// it is read.
func Difference(primary, standby Evidence) Forgotten {
	f := Forgotten{Orders: map[string]int{}, Kept: map[string]int{}, Events: map[string]Event{}}
	kept := newCheck(standby, Allowance{})
	for _, o := range primary.Orders {
		if there := kept.orders[o.ID].Version; there < o.Version {
			f.Orders[o.ID], f.Kept[o.ID] = o.Version, there
		}
	}
	for _, e := range primary.Events {
		switch there, known := kept.events[e.ID]; {
		case !known:
			f.Events[e.ID] = e
		case there.Status != e.Status:
			f.Marks++
		}
	}
	for _, m := range primary.Emails {
		if kept.emails[m.ID].Status != m.Status {
			f.Emails = append(f.Emails, m)
		}
	}
	return f
}

// checkForgotten requires that orders and events are forgotten together (P1).
func (c *check) checkForgotten() {
	versions := map[string][]int{}
	for _, e := range c.Forgotten.Events {
		versions[e.OrderID] = append(versions[e.OrderID], e.Version)
	}
	for id, last := range c.Forgotten.Orders {
		var want []int
		for v := c.Forgotten.Kept[id] + 1; v <= last; v++ {
			want = append(want, v)
		}
		if got := slices.Sorted(slices.Values(versions[id])); !slices.Equal(got, want) {
			c.violation("P1", "the failover forgot the versions %d of order %s, and the events of %d", want, id, got)
		}
		delete(versions, id)
	}
	for id := range versions {
		c.violation("P1", "the failover forgot events of order %s, and not the order", id)
	}
	for _, m := range c.Tap {
		if _, forgotten := c.Forgotten.Events[m.ID]; forgotten {
			c.report.ForgottenMessages++
		}
	}
}

// isForgotten reports whether the failover explains that an acknowledged request had no effect. It
// explains nothing about the first Replicated attempts, because the standby had their effects.
func (c *check) isForgotten(i int, a Attempt) bool {
	last, forgotten := c.Forgotten.Orders[a.OrderID]
	kept := c.Forgotten.Kept[a.OrderID]
	if a.Kind == Place {
		return forgotten && kept == 0 && i >= c.Forgotten.Replicated
	}
	return forgotten && kept < 2 && last > 1 && i >= c.Forgotten.Replicated
}

// isForgottenEvent reports whether a message or an e-mail is about an event that the failover
// forgot.
func (c *check) isForgottenEvent(id string) bool {
	_, forgotten := c.Forgotten.Events[id]
	return forgotten
}

// permitsRepeat reports whether the consumer's database has forgotten that it sent this e-mail.
func (f Forgotten) permitsRepeat(id string) bool {
	return slices.ContainsFunc(f.Emails, func(m Email) bool { return m.ID == id })
}

// Explain says what was lost and why, or "".
func (r Report) Explain() string {
	if r.Forgotten == 0 {
		return ""
	}
	return fmt.Sprintf("the standby had not received %d acknowledged requests when it was promoted: orders and events are lost together; "+
		"%d of these events were already published, and %d e-mails are about them", r.Forgotten, r.ForgottenMessages, r.ForgottenMails)
}
