package checker

import (
	"slices"
	"time"
)

// checkOutbox requires that every committed event is published. Unless the broker refuses events or
// gives no answer, none has counted a try (P4).
func (c *check) checkOutbox() {
	for _, e := range c.Events {
		switch e.Status {
		case "published":
		case "failed", "discarded":
			c.reportLost("P4", e.ID, "event %s is %s", e.ID, e.Status)
		default:
			c.reportLost("P4", e.ID, "event %s is still %s", e.ID, e.Status)
		}
		if e.RetryCount > 0 && !c.allowed.Refusals {
			c.violation("P4", "event %s has counted %d tries", e.ID, e.RetryCount)
		}
	}
	if c.Unpublished > 0 {
		c.violation("P3", "%d events or e-mails were published and later were not", c.Unpublished)
	}
}

// checkRoute requires every published event on the tap (P3), and in the inbox or in a queue of the
// service (P5). It limits the copies.
func (c *check) checkRoute() {
	for _, e := range c.Events {
		kept := c.recorded[e.ID] || c.waiting[e.ID] || c.dead[e.ID]
		routed := c.copies[e.ID] > 0 || (c.allowed.TapGap && kept)
		if e.Status == "published" && !routed {
			c.reportLost("P3", e.ID, "event %s is published and reached no queue", e.ID)
		}
		if e.Status == "published" && !kept {
			c.reportLost("P5", e.ID, "event %s is published, and it is neither recorded nor in a queue", e.ID)
		}
	}
	for _, copies := range c.copies {
		c.report.Duplicated += copies - 1
	}
	c.requireAtMost("P5", c.report.Duplicated, c.allowed.Duplicates, "additional copies were published")
	for _, m := range c.Tap {
		if _, retried := m.Headers["retry-count"]; retried {
			c.violation("P8", "a retry of message %s reached another service's queue", m.ID)
		}
	}
}

// checkSequence requires the first copies of an order's events in the order of their versions,
// withoutOrder a gap (P7).
func (c *check) checkSequence() {
	if c.allowed.TapGap {
		return
	}
	last, seen := map[string]int{}, map[string]bool{}
	for _, m := range c.Tap {
		e, known := c.events[m.ID]
		if !known || seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		if e.Version != last[e.OrderID]+1 {
			c.violation("P7", "order %s: version %d came after version %d", e.OrderID, e.Version, last[e.OrderID])
		}
		last[e.OrderID] = max(last[e.OrderID], e.Version)
	}
}

// margin is how far outside the scenario a correct time may lie: leases and back-offs end in the
// future, and the timestamps of messages have no fractions of seconds.
const margin = 2 * time.Minute

// checkTimes requires that no stored time comes from a wrong clock (P11). The replicas' clocks may
// be wrong; the database's clock is right.
func (c *check) checkTimes() {
	for _, t := range c.Times {
		c.checkTime(t.Where, t.At)
	}
	for _, m := range slices.Concat(c.Tap, c.Waiting, c.DeadLetters) {
		c.checkTime("the timestamp of message "+m.ID, m.At)
		if text, failed := m.Headers["failed-at"].(string); failed {
			at, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				c.violation("P9", "message %s has the failed-at header %q, which is not a time", m.ID, text)
			}
			c.checkTime("failed-at of message "+m.ID, at)
		}
	}
	for _, m := range c.Mails {
		c.checkTime("the date of the e-mail "+m.MessageID, m.Date)
	}
}

func (c *check) checkTime(where string, at time.Time) {
	if at.IsZero() {
		return // not set
	}
	if at.Before(c.Began.Add(-margin)) || at.After(c.Ended.Add(margin)) {
		c.violation("P11", "%s is %s, and the scenario ran from %s to %s", where, formatTime(at), formatTime(c.Began), formatTime(c.Ended))
	}
}

func formatTime(t time.Time) string { return t.UTC().Format(time.DateTime) }

// checkLeases requires that no relay claims an event during another relay's lease (P11).
func (c *check) checkLeases() {
	for _, held := range c.Reclaims {
		if held < c.allowed.Lease {
			c.violation("P11", "an event was claimed again %s after a claim with a lease of %s", held, c.allowed.Lease)
		}
	}
}
