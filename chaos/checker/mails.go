package checker

import "strings"

// messageOf is the id of the message that an e-mail tells of.
func messageOf(m Mail) string {
	id, _, _ := strings.Cut(strings.Trim(m.MessageID, "<>"), "@")
	return id
}

// judgeMails wants one e-mail of each notification that is sent; a repeat has the same
// id, and a fault that excuses it (P6).
func (c *judgement) judgeMails() {
	ids, wanted := map[[2]string]string{}, c.wanted() // ids of each e-mail that a customer can tell apart
	for _, m := range c.Mails {
		what := [2]string{m.To, m.Subject}
		if before, repeated := ids[what]; repeated && before != m.MessageID {
			c.surprises("P6", messageOf(m), "%s got %q twice, with two ids", m.To, m.Subject)
		}
		ids[what] = m.MessageID
		if complaint := c.wrong(m, wanted[m.To]); complaint != "" {
			c.surprises("P6", m.MessageID, "the e-mail %s to %s %s", m.MessageID, m.To, complaint)
		}
	}
	for _, n := range c.Notifications {
		if n.Status == "sent" && c.mailed[n.ID] == 0 {
			c.loses("P6", n.ID, "notification %s is sent, and the server has no e-mail", n.ID)
		}
	}
	c.judgeRepeats()
}

// judgeRepeats bounds the repeats of each e-mail, and of all together. One that the server
// cut is repeated rightly, as often as that.
func (c *judgement) judgeRepeats() {
	cuts := map[string]int{}
	for _, m := range c.Mails {
		if m.Cut {
			cuts[messageOf(m)]++
			c.report.MailBound++
		}
	}
	c.report.MailBound += c.allowed.Mails
	unexcused := 0
	for id, copies := range c.mailed {
		c.report.MailRepeats += copies - 1
		repeats := max(0, copies-1-cuts[id])
		unexcused += repeats
		if repeats > c.allowed.MailsEach {
			c.breaks("P6", "the e-mail %s was repeated %d times, where each fault excuses one, and there were %d", id, repeats, c.allowed.MailsEach)
		}
	}
	c.unlessAtMost("P6", unexcused, c.allowed.Mails, "e-mails were repeated")
}
