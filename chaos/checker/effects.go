package checker

import (
	"bytes"
	"strings"
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
	newest := map[string]int{}
	for _, n := range c.Notifications {
		newest[n.OrderID] = max(newest[n.OrderID], n.Version)
	}
	for _, n := range c.Notifications {
		switch {
		case !processed[n.ID]:
			c.surprises("P5", n.ID, "notification %s is of no processed message", n.ID)
		case !isSettled(n.Status):
			c.loses("P6", n.ID, "notification %s is still %s", n.ID, n.Status)
		case n.Status == "superseded" && n.Version == newest[n.OrderID]:
			c.loses("P6", n.ID, "notification %s is superseded by nothing", n.ID)
		}
	}
}

// judgeMails wants one e-mail of each notification that is sent; a repeat has the same
// id, and a fault that excuses it (P6).
func (c *judgement) judgeMails() {
	copies := map[string]int{}    // by message id
	ids := map[[2]string]string{} // of each e-mail that a customer can tell apart
	for _, m := range c.Mails {
		id, _, _ := strings.Cut(strings.Trim(m.MessageID, "<>"), "@")
		copies[id]++
		what := [2]string{m.To, m.Subject}
		if before, repeated := ids[what]; repeated && before != m.MessageID {
			c.surprises("P6", id, "%s got %q twice, with two ids", m.To, m.Subject)
		}
		ids[what] = m.MessageID
		if n, known := c.notifications[id]; !known || n.Recipient != m.To {
			c.surprises("P6", m.MessageID, "an e-mail to %s, with the id %s, is of no notification", m.To, m.MessageID)
		}
	}
	for _, n := range c.Notifications {
		if n.Status == "sent" && copies[n.ID] == 0 {
			c.loses("P6", n.ID, "notification %s is sent, and the server has no e-mail", n.ID)
		}
	}
	for _, n := range copies {
		c.report.MailRepeats += n - 1
	}
	c.unlessAtMost("P6", c.report.MailRepeats, c.allowed.Mails, "e-mails were repeated")
}

// judgeDeadLetters wants the bad messages there, unchanged and with the reason, and no
// others (P9); none of them with the other service (P8).
func (c *judgement) judgeDeadLetters() {
	for _, m := range c.DeadLetters {
		planted, known := c.allowed.Planted[m.ID]
		switch {
		case c.allowed.Rejected && c.notifications[m.ID].Status == "rejected":
		case !known:
			c.breaks("P9", "message %s is a dead letter: %v", m.ID, m.Headers["failure-reason"])
		case !bytes.Equal(planted.Body, m.Body) || planted.Key != m.Key:
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
