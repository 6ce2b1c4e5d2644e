package checker

import (
	"bytes"
	"slices"
	"time"
)

// judgeEffects wants one effect of each message (P5), and each brought to its end.
func (c *judgement) judgeEffects() {
	processed := map[string]bool{}
	for _, id := range c.Processed {
		processed[id] = true
		if _, there := c.notifications[id]; !there {
			c.loses("P5", id, "message %s is processed and had no effect", id)
		}
	}
	if len(c.notifications) != len(c.Notifications) || len(processed) != len(c.Processed) {
		c.breaks("P5", "a message had two effects")
	}
	for _, n := range c.Notifications {
		switch {
		case !processed[n.ID]:
			c.surprises("P5", n.ID, "notification %s is of no processed message", n.ID)
		case !isSettled(n.Status):
			c.loses("P6", n.ID, "notification %s is still %s", n.ID, n.Status)
		case n.Status == "superseded" && !c.toldLater(n):
			c.loses("P6", n.ID, "notification %s is superseded by nothing that anybody was told", n.ID)
		case n.Status == "rejected" && !c.dead[n.ID]:
			c.loses("P9", n.ID, "notification %s is rejected, and its message is no dead letter", n.ID)
		}
	}
	c.judgeWaiting()
}

// toldLater reports whether something newer of the order makes up for an e-mail that was
// not sent: the mail server has a newer one, or the message of a newer one is a dead
// letter, which people see and can replay. A newer one that is superseded itself does not
// count.
func (c *judgement) toldLater(old Notification) bool {
	return slices.ContainsFunc(c.Notifications, func(n Notification) bool {
		newer := n.OrderID == old.OrderID && n.Version > old.Version
		return newer && (c.mailed[n.ID] > 0 || c.dead[n.ID])
	})
}

// judgeWaiting wants nothing to be left on the way back. In the service's own queue there
// may be repeats of what has had its effect: they were prefetched when it ended.
func (c *judgement) judgeWaiting() {
	for _, m := range c.Waiting {
		if m.Queue != ownQueue || !isSettled(c.notifications[m.ID].Status) {
			c.breaks("P5", "message %s is left in %s", m.ID, m.Queue)
		}
	}
}

// ownQueue is where notification-service has its messages from.
const ownQueue = "notification-service"

// judgeDeadLetters wants the bad messages there, unchanged and with the reason, and no
// others (P9); none of them with the other service (P8).
func (c *judgement) judgeDeadLetters() {
	for _, m := range c.DeadLetters {
		original, known := c.expectedDead(m.ID)
		switch {
		case !known:
			c.breaks("P9", "message %s is a dead letter: %v", m.ID, m.Headers["failure-reason"])
		case !bytes.Equal(original.Body, m.Body) || original.Key != m.Key:
			c.breaks("P9", "the dead letter %s has changed", m.ID)
		case m.Headers["failure-reason"] == nil && m.Headers["x-first-death-reason"] == nil:
			c.breaks("P9", "the dead letter %s does not say why", m.ID)
		}
	}
	for id := range c.allowed.Planted {
		if !c.dead[id] {
			c.loses("P9", id, "the bad message %s is not among the dead letters", id)
		}
	}
	for _, m := range c.OrderDeadLetters {
		if c.events[m.ID].Status != "failed" {
			c.breaks("P8", "message %s is a dead letter of order-service, and no failed event", m.ID)
		}
	}
}

// expectedDead returns what a message was that has to be a dead letter.
func (c *judgement) expectedDead(id string) (Message, bool) {
	if planted, known := c.allowed.Planted[id]; known {
		return planted, true
	}
	refused := c.allowed.Refused[c.orders[c.events[id].OrderID].Email] && c.notifications[id].Status == "rejected"
	i := slices.IndexFunc(c.Tap, func(m Message) bool { return m.ID == id })
	if !refused || i < 0 {
		return Message{}, false
	}
	return c.Tap[i], true
}

// drainTime is what a service has to end in.
const drainTime = 25 * time.Second

// judgeExits wants every process that was asked to end to do so, in time (P12).
func (c *judgement) judgeExits() {
	for _, e := range c.Exits {
		if e.Code != 0 || e.Took > drainTime {
			c.breaks("P12", "%s ended with %d, %s after the signal", e.Name, e.Code, e.Took.Round(time.Millisecond))
		}
	}
}
