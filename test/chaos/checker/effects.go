package checker

import (
	"bytes"
	"slices"
	"time"
)

// checkEffects requires one effect for each message (P5), in a final state (P6, P9).
func (c *check) checkEffects() {
	processed := map[string]bool{}
	for _, id := range c.Processed {
		processed[id] = true
		if _, there := c.notifications[id]; !there {
			c.reportLost("P5", id, "message %s is processed and has no effect", id)
		}
	}
	if len(c.notifications) != len(c.Notifications) || len(processed) != len(c.Processed) {
		c.violation("P5", "a message had two effects")
	}
	for _, n := range c.Notifications {
		switch {
		case !processed[n.ID]:
			c.reportUnexpected("P5", n.ID, "notification %s belongs to no processed message", n.ID)
		case !isSettled(n.Status):
			c.reportLost("P6", n.ID, "notification %s is still %s", n.ID, n.Status)
		case n.Status == "superseded" && !c.hasNewerOutcome(n):
			c.reportLost("P6", n.ID, "notification %s is superseded, and no newer e-mail was sent", n.ID)
		case n.Status == "rejected" && !c.dead[n.ID]:
			c.reportLost("P9", n.ID, "notification %s is rejected, and its message is not a dead letter", n.ID)
		}
	}
	c.checkWaiting()
}

// hasNewerOutcome reports whether a newer notification of the order replaces one that was not sent.
// Its e-mail is on the mail server, or its message is a dead letter, which an operator can replay.
// A newer notification that is superseded itself does not count.
func (c *check) hasNewerOutcome(old Notification) bool {
	return slices.ContainsFunc(slices.Concat(c.Notifications, c.Forgotten.Notifications), func(n Notification) bool {
		newer := n.OrderID == old.OrderID && n.Version > old.Version
		return newer && (c.mailed[n.ID] > 0 || c.dead[n.ID])
	})
}

// checkWaiting requires empty retry queues. The service's own queue may hold duplicates of messages
// that had their effect: the service had prefetched them when it stopped.
func (c *check) checkWaiting() {
	for _, m := range c.Waiting {
		if m.Queue != ownQueue || !isSettled(c.notifications[m.ID].Status) {
			c.violation("P5", "message %s is left in %s", m.ID, m.Queue)
		}
	}
}

// ownQueue is the queue that notification-service consumes.
const ownQueue = "notification-service"

// checkDeadLetters requires the malformed and the refused messages in the dead-letter queue,
// unchanged and with the reason, and no others (P9). None may be in the other service's
// dead-letter queue (P8).
func (c *check) checkDeadLetters() {
	for _, m := range c.DeadLetters {
		original, known := c.expectedDead(m.ID)
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
	for _, m := range c.OrderDeadLetters {
		if c.events[m.ID].Status != "failed" {
			c.violation("P8", "message %s is a dead letter of order-service, and not a failed event", m.ID)
		}
	}
}

// expectedDead returns the original of a message that must be a dead letter.
func (c *check) expectedDead(id string) (Message, bool) {
	if malformed, known := c.allowed.Malformed[id]; known {
		return malformed, true
	}
	refused := c.allowed.Refused[c.orders[c.events[id].OrderID].Email] && c.notifications[id].Status == "rejected"
	i := slices.IndexFunc(c.Tap, func(m Message) bool { return m.ID == id })
	if !refused || i < 0 {
		return Message{}, false
	}
	return c.Tap[i], true
}

// drainTime is how long a service may take to stop.
const drainTime = 25 * time.Second

// checkExits requires exit status 0 within drainTime from every process that was stopped (P12).
func (c *check) checkExits() {
	for _, e := range c.Exits {
		if e.Code != 0 || e.Took > drainTime {
			c.violation("P12", "%s ended with status %d, %s after the signal", e.Name, e.Code, e.Took.Round(time.Millisecond))
		}
	}
}
