package checker

import "strings"

// MessageID returns the id of the message that caused an e-mail.
func MessageID(m Mail) string {
	id, _, _ := strings.Cut(strings.Trim(m.MessageID, "<>"), "@")
	return id
}

// checkMails requires at the mail server each e-mail that is published, with the right content. A
// repeat has the same Message-ID, and a fault that permits it (P6).
func (c *check) checkMails() {
	ids, requests := map[[2]string]string{}, c.requests() // Message-IDs, by recipient and subject
	for _, m := range c.Mails {
		if c.isForgottenEvent(MessageID(m)) {
			c.report.ForgottenMails++
			continue
		}
		what := [2]string{m.To, m.Subject}
		if before, repeated := ids[what]; repeated && before != m.MessageID {
			c.reportUnexpected("P6", MessageID(m), "%s got %q twice, with two ids", m.To, m.Subject)
		}
		ids[what] = m.MessageID
		if problem := c.mailError(m, requests[m.To]); problem != "" {
			c.reportUnexpected("P6", m.MessageID, "the e-mail %s to %s %s", m.MessageID, m.To, problem)
		}
	}
	for _, m := range c.Emails {
		if m.Status == "published" && c.mailed[m.ID] == 0 {
			c.reportLost("P6", m.ID, "e-mail %s is published, and the mail server does not have it", m.ID)
		}
	}
	c.checkRepeats()
}

// checkMailSequence requires the e-mails of one order in the order of their versions, first copies
// and repeats (P7). A consumer whose database has forgotten an e-mail cannot know that a newer one
// was sent.
func (c *check) checkMailSequence() {
	last := map[string]int{}
	for _, m := range c.Mails {
		e, known := c.events[MessageID(m)]
		if !known || c.Forgotten.permitsRepeat(e.ID) {
			continue
		}
		if e.Version < last[e.OrderID] {
			c.violation("P7", "order %s: the e-mail of version %d came after that of version %d", e.OrderID, e.Version, last[e.OrderID])
		}
		last[e.OrderID] = max(last[e.OrderID], e.Version)
	}
}

// checkRepeats limits the repeats of each e-mail and the repeats of all. Each cut connection
// permits one repeat of its e-mail.
func (c *check) checkRepeats() {
	cuts := map[string]int{}
	for _, m := range c.Mails {
		if m.Cut {
			cuts[MessageID(m)]++
			c.report.MailBound++
		}
	}
	c.report.MailBound += c.allowed.Mails
	unexcused := 0
	for id, copies := range c.mailed {
		c.report.MailRepeats += copies - 1
		if c.Forgotten.permitsRepeat(id) {
			cuts[id]++
			c.report.MailBound++
		}
		repeats := max(0, copies-1-cuts[id])
		unexcused += repeats
		if repeats > c.allowed.MailsEach {
			c.violation("P6", "the e-mail %s was repeated %d times, and the faults permit %d", id, repeats, c.allowed.MailsEach)
		}
	}
	c.requireAtMost("P6", unexcused, c.allowed.Mails, "e-mails were repeated")
}
