package main

import "example.com/transactional-outbox/test/edit"

// emailMutants send wrong e-mails or none, while the service's own rows look right.
var emailMutants = []mutant{
	{
		name: "refused-without-copy", description: "the message of a refused e-mail is acknowledged without a dead letter", scenario: "smtp-rejecting",
		edits: []edit.Edit{{
			File: "notification-service/internal/consumer/retry.go",
			Old:  "		return c.deadLetter(d, permanent.DeadLetterCode(), err)\n",
			New: "		if permanent.DeadLetterCode() == \"recipient-refused\" {\n			d.leased = false\n" +
				"			return deadLettered, errors.Join(c.effect.Reject(d.ctx, d.id, err.Error()), d.Ack())\n		}\n" +
				"		return c.deadLetter(d, permanent.DeadLetterCode(), err)\n",
		}},
	},
	{
		name: "refused-is-final", description: "a replay of a refused e-mail sends nothing", scenario: "smtp-rejecting",
		edits: []edit.Edit{{
			File: "notification-service/internal/notification/record.go",
			Old:  "n.status = 'rejected' AND n.message_id = ANY", New: "n.status = 'never' AND n.message_id = ANY",
		}},
	},
	{
		name: "e-mails-swapped", description: "each notification is recorded with the details of the order before it", scenario: "smtp-not-now",
		edits: []edit.Edit{
			{
				File: "notification-service/internal/notification/record.go",
				Old:  "	n := Notification{\n",
				New: "	own := r.Event\n	select {\n	case other := <-before:\n		r.Event.ProductID, r.Event.Quantity, r.Event.Amount = other.ProductID, other.Quantity, other.Amount\n" +
					"	default:\n	}\n	select {\n	case before <- own:\n	default:\n	}\n	n := Notification{\n",
			},
			{
				File: "notification-service/internal/notification/record.go",
				Old:  "func (s *Service) notification(r", New: "var before = make(chan Event, 1)\n\nfunc (s *Service) notification(r",
			},
		},
	},
	{
		name: "confirmation-says-cancelled", description: "the e-mail of a confirmation has the headline of a cancellation", scenario: "smtp-not-now",
		edits: []edit.Edit{{
			File: "notification-service/internal/notification/templates/order.confirmed.tmpl",
			Old:  "{{define \"headline\"}}Your order is confirmed{{end}}", New: "{{define \"headline\"}}Your order is cancelled{{end}}",
		}},
	},
	{
		name: "copies-left-behind", description: "each retry also goes to the longest tier, and no message leaves that tier", scenario: "way-back-deleted",
		edits: []edit.Edit{
			{
				File: "notification-service/topology.go",
				Old:  "	q.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n",
				New:  "	if delay < 3*time.Second {\n		q.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n	}\n",
			},
			{
				File: "notification-service/internal/consumer/copy.go",
				Old:  "	err := c.publishUntilConfirmed(d, c.newCopy(d, exchange, headers), d.copyDeadline(c.config.MaxHold))\n",
				New: "	if exchange != c.config.DeadLetterExchange {\n		_ = c.publishUntilConfirmed(d, c.newCopy(d, c.config.RetryExchanges[c.lastTier()], headers), d.copyDeadline(c.config.MaxHold))\n	}\n" +
					"	err := c.publishUntilConfirmed(d, c.newCopy(d, exchange, headers), d.copyDeadline(c.config.MaxHold))\n",
			},
		},
	},
	{
		name: "one-e-mail-often", description: "the e-mails of one order are sent six times each", scenario: "notifications-sigkill",
		edits: []edit.Edit{{
			File: "notification-service/internal/notification/notification.go",
			Old:  "	if err := s.mailer.Send(ctx, email); err != nil {\n",
			New: "	for i := 0; i < 5 && len(email.To) > 7 && email.To[:7] == \"c000010\"; i++ {\n		_ = s.mailer.Send(ctx, email)\n	}\n" +
				"	if err := s.mailer.Send(ctx, email); err != nil {\n",
		}},
	},
	{
		name: "mark-forgotten", description: "the service does not write that an e-mail is sent if the database is unavailable", scenario: "postgres-restart-while-mailing",
		edits: []edit.Edit{
			{
				File: "notification-service/internal/notification/mark.go",
				Old:  "		if err != nil && !postgres.Unavailable(err) {\n", New: "		if err != nil {\n",
			},
			{
				File: "notification-service/internal/notification/mark.go",
				Old:  "		return struct{}{}, s.mark(ctx, m)\n",
				New:  "		err := s.mark(ctx, m)\n		if err != nil {\n			err = backoff.Permanent(err)\n		}\n		return struct{}{}, err\n",
			},
		},
	},
	{
		name: "policy-blamed-on-messages", description: "a refusal by the mail server's policy counts as the message's own error", scenario: "smtp-policy",
		edits: []edit.Edit{{
			File: "notification-service/internal/consumer/classify.go",
			Old:  "		if p.failUnclear(d.held, h, err) {\n			return unclear.MessageError()\n		}\n", New: "		return unclear.MessageError()\n",
		}},
	},
	{
		name: "one-by-one-for-ever", description: "after its start, a consumer waits for the copy of a message before it takes the next one", scenario: "copies-blocked",
		edits: []edit.Edit{{
			File: "notification-service/internal/consumer/delivery.go",
			Old:  "func (d *delivery) markWaiting() { d.once.Do(func() { close(d.waiting) }) }", New: "func (d *delivery) markWaiting() {}",
		}},
	},
}
