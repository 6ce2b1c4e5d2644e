package main

// emailMutants send wrong e-mails or none, while the service's own rows look right.
var emailMutants = []mutant{
	{
		name: "refused-without-copy", description: "the message of a refused e-mail is acknowledged without a dead letter", scenario: "smtp-rejecting",
		edits: []edit{{
			"notification-service/internal/consumer/retry.go",
			"		return c.deadLetter(d, permanent.DeadLetterCode(), err)\n",
			"		if permanent.DeadLetterCode() == \"recipient-refused\" {\n			d.leased = false\n" +
				"			return deadLettered, errors.Join(c.effect.Reject(d.ctx, d.id, err.Error()), d.Ack())\n		}\n" +
				"		return c.deadLetter(d, permanent.DeadLetterCode(), err)\n",
		}},
	},
	{
		name: "refused-is-final", description: "a replay of a refused e-mail sends nothing", scenario: "smtp-rejecting",
		edits: []edit{{
			"notification-service/internal/notification/record.go",
			"n.status = 'rejected' AND n.message_id = ANY", "n.status = 'never' AND n.message_id = ANY",
		}},
	},
	{
		name: "e-mails-swapped", description: "each notification is recorded with the details of the order before it", scenario: "smtp-not-now",
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
		name: "confirmation-says-cancelled", description: "the e-mail of a confirmation has the headline of a cancellation", scenario: "smtp-not-now",
		edits: []edit{{
			"notification-service/internal/notification/templates/order.confirmed.tmpl",
			"{{define \"headline\"}}Your order is confirmed{{end}}", "{{define \"headline\"}}Your order is cancelled{{end}}",
		}},
	},
	{
		name: "copies-left-behind", description: "each retry also goes to the longest tier, and no message leaves that tier", scenario: "way-back-deleted",
		edits: []edit{
			{
				"notification-service/topology.go",
				"	q.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n",
				"	if delay < 3*time.Second {\n		q.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n	}\n",
			},
			{
				"notification-service/internal/consumer/copy.go",
				"	err := c.publishUntilConfirmed(d, c.newCopy(d, exchange, headers))\n",
				"	if exchange != c.config.DeadLetterExchange {\n		_ = c.publishUntilConfirmed(d, c.newCopy(d, c.config.RetryExchanges[c.lastTier()], headers))\n	}\n" +
					"	err := c.publishUntilConfirmed(d, c.newCopy(d, exchange, headers))\n",
			},
		},
	},
	{
		name: "one-e-mail-often", description: "the e-mails of one order are sent six times each", scenario: "notifications-sigkill",
		edits: []edit{{
			"notification-service/internal/notification/notification.go",
			"	if err := s.mailer.Send(ctx, email); err != nil {\n",
			"	for i := 0; i < 5 && len(email.To) > 7 && email.To[:7] == \"c000010\"; i++ {\n		_ = s.mailer.Send(ctx, email)\n	}\n" +
				"	if err := s.mailer.Send(ctx, email); err != nil {\n",
		}},
	},
	{
		name: "mark-forgotten", description: "the service does not write that an e-mail is sent if the database is unavailable", scenario: "postgres-restart-while-mailing",
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
		name: "policy-blamed-on-messages", description: "a refusal by the mail server's policy counts as the message's own error", scenario: "smtp-policy",
		edits: []edit{{
			"notification-service/internal/consumer/classify.go",
			"		if p.failUnclear(d.held, h, err) {\n			return unclear.MessageError()\n		}\n", "		return unclear.MessageError()\n",
		}},
	},
	{
		name: "one-by-one-for-ever", description: "after its start, a consumer waits for the copy of a message before it takes the next one", scenario: "copies-blocked",
		edits: []edit{{
			"notification-service/internal/consumer/delivery.go",
			"func (d *delivery) markWaiting() { d.once.Do(func() { close(d.waiting) }) }", "func (d *delivery) markWaiting() {}",
		}},
	},
}
