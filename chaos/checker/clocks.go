package checker

import (
	"slices"
	"time"
)

// margin is how far outside the run a time may lie that is right: leases and back-offs
// end in the future, and the messages' timestamps know no fractions of seconds.
const margin = 2 * time.Minute

// judgeTimes wants every time that is written anywhere to be of a clock that is right,
// which those of the replicas need not be (P11).
func (c *judgement) judgeTimes() {
	for _, t := range c.Times {
		c.judgeTime(t.Where, t.At)
	}
	for _, m := range slices.Concat(c.Tap, c.Waiting, c.DeadLetters, c.OrderDeadLetters) {
		c.judgeTime("the timestamp of message "+m.ID, m.At)
		if text, failed := m.Headers["failed-at"].(string); failed {
			at, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				c.breaks("P9", "message %s failed at %q, which is no time", m.ID, text)
			}
			c.judgeTime("failed-at of message "+m.ID, at)
		}
	}
	for _, m := range c.Mails {
		c.judgeTime("the date of the e-mail "+m.MessageID, m.Date)
	}
}

func (c *judgement) judgeTime(where string, at time.Time) {
	if at.IsZero() {
		return // nothing is written there
	}
	if at.Before(c.Began.Add(-margin)) || at.After(c.Ended.Add(margin)) {
		c.breaks("P11", "%s is %s, and all happened from %s to %s", where, stamp(at), stamp(c.Began), stamp(c.Ended))
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.DateTime) }

// judgeLeases wants nobody to claim what somebody else holds, whatever time it is there
// (P11).
func (c *judgement) judgeLeases() {
	for _, held := range c.Reclaims {
		if held < c.allowed.Lease {
			c.breaks("P11", "an event was claimed again %s after it was claimed for %s", held, c.allowed.Lease)
		}
	}
}
