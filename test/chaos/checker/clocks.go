package checker

import (
	"slices"
	"time"
)

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
