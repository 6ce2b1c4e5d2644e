package publishtest

import (
	"example.com/transactional-outbox/outbox/publish"
)

// stored waits until the server has all these messages, and returns everything that it has. That
// may be more than one copy of a message that was published again.
func (c contract) stored(messages ...publish.Message) []publish.Message {
	c.Helper()
	for n := len(messages); ; {
		got := c.Received(c.T, n)
		if missing := without(messages, got); len(missing) == 0 {
			return got
		}
		n = len(got) + 1
	}
}

// notStored requires that the server does not have these messages. It first publishes later
// messages of the same groups, and waits for them: so the others can no longer arrive.
func (c contract) notStored(messages ...publish.Message) {
	c.Helper()
	var last []publish.Message
	for _, m := range messages {
		last = append(last, c.message(m.Group))
	}
	c.confirm(c.publisher(), last...)
	got := c.stored(last...)
	if missing := without(messages, got); len(missing) < len(messages) {
		c.Errorf("the server has %d of %d messages that it must not have", len(messages)-len(missing), len(messages))
	}
}

// without returns the messages whose ids are not among the others.
func without(messages, others []publish.Message) (missing []publish.Message) {
	ids := map[string]bool{}
	for _, m := range others {
		ids[m.ID] = true
	}
	for _, m := range messages {
		if !ids[m.ID] {
			missing = append(missing, m)
		}
	}
	return missing
}

// byID returns the first message of each id.
func byID(messages []publish.Message) map[string]publish.Message {
	found := map[string]publish.Message{}
	for _, m := range messages {
		if _, known := found[m.ID]; !known {
			found[m.ID] = m
		}
	}
	return found
}
