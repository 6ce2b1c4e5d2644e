package checker

// judgeOutbox wants every committed event published, and none blamed for what was not
// its fault (P4).
func (c *judgement) judgeOutbox() {
	spentOnce := 0
	for _, e := range c.Events {
		switch e.Status {
		case "published":
		case "failed", "discarded":
			c.loses("P4", e.ID, "event %s is %s", e.ID, e.Status)
		default:
			c.loses("P4", e.ID, "event %s is still %s", e.ID, e.Status)
		}
		if e.RetryCount == 1 && spentOnce < c.allowed.SpentOnce {
			spentOnce++
			c.allowed.Duplicates++ // another queue has a copy of it
		} else if e.RetryCount > 0 && !c.allowed.Spent {
			c.breaks("P4", "event %s has spent %d attempts", e.ID, e.RetryCount)
		}
	}
	if c.Regrets > 0 {
		c.breaks("P3", "%d events were published, and then were not", c.Regrets)
	}
}

// judgeRoute wants every published event in a queue: on the tap (P3), and with the
// service or in one of its queues (P5). Copies are bounded.
func (c *judgement) judgeRoute() {
	for _, e := range c.Events {
		_, taken := c.notifications[e.ID]
		kept := taken || c.waiting[e.ID] || c.dead[e.ID]
		routed := c.copies[e.ID] > 0 || (c.allowed.TapGap && kept)
		if e.Status == "published" && !routed {
			c.loses("P3", e.ID, "event %s is published and was in no queue", e.ID)
		}
		if e.Status == "published" && !kept {
			c.loses("P5", e.ID, "event %s is published, and neither a notification nor in a queue", e.ID)
		}
	}
	for _, copies := range c.copies {
		c.report.Duplicated += copies - 1
	}
	c.unlessAtMost("P5", c.report.Duplicated, c.allowed.Duplicates, "copies were published beyond the first")
	for _, m := range c.Tap {
		if _, retried := m.Headers["retry-count"]; retried {
			c.breaks("P8", "a retry of message %s came to another service's queue", m.ID)
		}
	}
}

// judgeSequence wants the first appearances of one order's events in the order of
// their versions, and without a gap (P7).
func (c *judgement) judgeSequence() {
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
			c.breaks("P7", "order %s: version %d came after version %d", e.OrderID, e.Version, last[e.OrderID])
		}
		last[e.OrderID] = max(last[e.OrderID], e.Version)
	}
}
