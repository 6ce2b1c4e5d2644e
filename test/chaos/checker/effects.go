package checker

import (
	"bytes"
	"slices"
	"time"
)

// checkEffects requires one effect for each message that is recorded (P5): its e-mail, unless a
// newer e-mail of the order has superseded it (P6). None may be
// failed (P9).
func (c *check) checkEffects() {
	if len(c.emails) != len(c.Emails) || len(c.recorded) != len(c.Recorded) {
		c.violation("P5", "a message had two effects")
	}
	for id := range c.recorded {
		e, known := c.events[id]
		if _, hasEmail := c.emails[id]; known && !hasEmail && !c.isSuperseded(e.OrderID, e.Version) {
			c.reportLost("P5", id, "message %s is recorded, it has no e-mail, and no newer one was sent", id)
		}
	}
	for _, m := range c.Emails {
		switch {
		case !c.recorded[m.ID]:
			c.reportUnexpected("P5", m.ID, "e-mail %s belongs to no recorded message", m.ID)
		case m.Status == "superseded" && !c.isSuperseded(m.OrderID, m.Version):
			c.reportLost("P6", m.ID, "e-mail %s is superseded, and no newer one was sent", m.ID)
		case m.Status == "failed":
			c.reportLost("P9", m.ID, "e-mail %s is failed", m.ID)
		case m.Status != "superseded" && m.Status != "published":
			c.reportLost("P6", m.ID, "e-mail %s is still %s", m.ID, m.Status)
		}
	}
	c.checkWaiting()
}

// isSuperseded reports whether the mail server has a newer e-mail of the order.
func (c *check) isSuperseded(order string, version int) bool {
	return slices.ContainsFunc(c.Emails, func(m Email) bool {
		return m.OrderID == order && m.Version > version && c.mailed[m.ID] > 0
	})
}

// checkWaiting requires empty retry queues. The service's own queue may hold duplicates of messages
// that had their effect: the service had prefetched them when it stopped.
func (c *check) checkWaiting() {
	for _, m := range c.Waiting {
		if m.Queue != ownQueue || !c.recorded[m.ID] {
			c.violation("P5", "message %s is left in %s", m.ID, m.Queue)
		}
	}
}

// ownQueue is the queue that notification-service consumes.
const ownQueue = "notification-service"

// checkDeadLetters requires the malformed messages in the dead-letter queue, unchanged and with the
// reason, and no others (P9).
func (c *check) checkDeadLetters() {
	for _, m := range c.DeadLetters {
		original, known := c.allowed.Malformed[m.ID]
		switch {
		case !known:
			c.violation("P9", "message %s is a dead letter: %v", m.ID, m.Headers["failure-reason"])
		case !bytes.Equal(original.Body, m.Body) || original.Key != m.Key:
			c.violation("P9", "the dead letter %s has changed", m.ID)
		case m.Headers["failure-reason"] == nil && m.Headers["x-first-death-reason"] == nil:
			c.violation("P9", "the dead letter %s does not say why", m.ID)
		}
	}
	for id := range c.allowed.Malformed {
		if !c.dead[id] {
			c.reportLost("P9", id, "the malformed message %s is not a dead letter", id)
		}
	}
}

// drainTime is how long a service may take to stop on a busy machine. After 25 s, the services end
// by themselves, with another exit status.
const drainTime = time.Minute

// checkExits requires exit status 0 within drainTime from every process that was stopped (P12).
func (c *check) checkExits() {
	for _, e := range c.Exits {
		if e.Code != 0 || e.Took > drainTime {
			c.violation("P12", "%s ended with status %d, %s after the signal", e.Name, e.Code, e.Took.Round(time.Millisecond))
		}
	}
}
