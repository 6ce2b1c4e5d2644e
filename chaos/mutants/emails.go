package main

// ofEmails are ways to tell customers something wrong, or nothing, while the service's own
// rows look right.
var ofEmails = []mutant{
	{
		name: "refused-without-copy", does: "a refused e-mail's message is acknowledged, and no dead letter is made", scenario: "smtp-rejecting",
		edits: []edit{{
			"notification-service/internal/consumer/copy.go",
			"		return c.deadLetter(ctx, m, permanent.DeadLetterCode(), err)\n",
			"		if permanent.DeadLetterCode() == \"recipient-refused\" {\n			m.leased = false\n" +
				"			return deadLettered, errors.Join(c.effect.Reject(ctx, m.id, err.Error()), m.Ack())\n		}\n" +
				"		return c.deadLetter(ctx, m, permanent.DeadLetterCode(), err)\n",
		}},
	},
	{
		name: "refused-is-final", does: "a replay of a refused e-mail sends nothing, and what it superseded was never told", scenario: "smtp-rejecting",
		edits: []edit{{
			"notification-service/internal/notification/record.go",
			"n.status = 'rejected' AND n.message_id = ANY", "n.status = 'never' AND n.message_id = ANY",
		}},
	},
	{
		name: "e-mails-swapped", does: "each notification is recorded with the details of the order before it", scenario: "smtp-not-now",
		edits: []edit{
			{
				"notification-service/internal/notification/record.go",
				"	n := Notification{\n",
				"	own := r.Event\n	select {\n	case other := <-before:\n		r.Event.ProductID, r.Event.Quantity, r.Event.Amount = other.ProductID, other.Quantity, other.Amount\n" +
					"	default:\n	}\n	select {\n	case before <- own:\n	default:\n	}\n	n := Notification{\n",
			},
			{
				"notification-service/internal/notification/record.go",
				"func (s *Service) notification(r", "var before = make(chan Event, 1)\n\nfunc (s *Service) notification(r",
			},
		},
	},
	{
		name: "confirmation-says-cancelled", does: "the e-mail of a confirmation has the headline of a cancellation", scenario: "smtp-not-now",
		edits: []edit{{
			"notification-service/internal/notification/templates/order.confirmed.tmpl",
			"{{define \"headline\"}}Your order is confirmed{{end}}", "{{define \"headline\"}}Your order is cancelled{{end}}",
		}},
	},
	{
		name: "copies-left-behind", does: "what is retried goes to the longest tier as well, and nothing ever leaves that one", scenario: "way-back-deleted",
		edits: []edit{
			{
				"notification-service/topology.go",
				"	q.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n",
				"	if delay < 3*time.Second {\n		q.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n	}\n",
			},
			{
				"notification-service/internal/consumer/copy.go",
				"	err := c.copyUntilDone(ctx, m, c.copyFor(m, exchange, headers))\n",
				"	if exchange != c.config.DeadLetters {\n		_ = c.copyUntilDone(ctx, m, c.copyFor(m, c.config.Retries[c.lastTier()], headers))\n	}\n" +
					"	err := c.copyUntilDone(ctx, m, c.copyFor(m, exchange, headers))\n",
			},
		},
	},
	{
		name: "one-e-mail-often", does: "the e-mails of one order are sent six times each", scenario: "notifications-sigkill",
		edits: []edit{{
			"notification-service/internal/notification/notification.go",
			"	if err := s.mailer.Send(ctx, email); err != nil {\n",
			"	for i := 0; i < 5 && len(email.To) > 7 && email.To[:7] == \"c000010\"; i++ {\n		_ = s.mailer.Send(ctx, email)\n	}\n" +
				"	if err := s.mailer.Send(ctx, email); err != nil {\n",
		}},
	},
	{
		name: "mark-forgotten", does: "that an e-mail is sent is forgotten when the database is away", scenario: "postgres-restart-while-mailing",
		edits: []edit{
			{
				"notification-service/internal/notification/mark.go",
				"		if err != nil && !postgres.Unavailable(err) {\n", "		if err != nil {\n",
			},
			{
				"notification-service/internal/notification/mark.go",
				"		return struct{}{}, s.mark(ctx, m)\n",
				"		err := s.mark(ctx, m)\n		if err != nil {\n			err = backoff.Permanent(err)\n		}\n		return struct{}{}, err\n",
			},
		},
	},
	{
		name: "policy-blamed-on-messages", does: "what a server refuses by policy is the recipient's own", scenario: "smtp-policy",
		edits: []edit{{
			"notification-service/internal/consumer/process.go",
			"		if t.suspect(ctx, s, err) {\n			return unclear.Otherwise()\n		}\n", "		return unclear.Otherwise()\n",
		}},
	},
	{
		name: "one-by-one-for-ever", does: "a fresh consumer takes the next message only when the one before has its copy", scenario: "copies-blocked",
		edits: []edit{{
			"notification-service/internal/consumer/message.go",
			"func (m *message) onlyWaits() { m.once.Do(func() { close(m.waiting) }) }", "func (m *message) onlyWaits() {}",
		}},
	},
}
