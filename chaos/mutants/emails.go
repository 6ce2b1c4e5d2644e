package main

// ofEmails are ways to tell customers something wrong, or nothing, while the service's own
// rows look right.
var ofEmails = []mutant{
	{
		name: "refused-without-copy", does: "a refused e-mail's message is acknowledged, and no dead letter is made", scenario: "smtp-rejecting",
		edits: []edit{{
			"notification-service/internal/consumer/copy.go",
			"		return c.bury(ctx, finish, d, permanent.DeadLetterCode(), err)\n",
			"		if permanent.DeadLetterCode() == \"recipient-refused\" {\n			return end{deadLettered, d.Ack}, nil\n		}\n" +
				"		return c.bury(ctx, finish, d, permanent.DeadLetterCode(), err)\n",
		}},
	},
	{
		name: "refused-is-final", does: "a replay of a refused e-mail sends nothing, and what it superseded was never told", scenario: "smtp-rejecting",
		edits: []edit{
			{
				"notification-service/internal/notification/store.go",
				"(n.status IN ('pending', 'rejected') OR", "(n.status IN ('pending') OR",
			},
			{
				"notification-service/internal/notification/notification.go",
				"	case sent, superseded:\n", "	case sent, superseded, rejected:\n",
			},
		},
	},
	{
		name: "e-mails-swapped", does: "each notification is recorded with the details of the order before it", scenario: "smtp-not-now",
		edits: []edit{
			{
				"notification-service/internal/notification/store.go",
				"	last, err := postgres.ReadOne(ctx, tx, progressSQL,",
				"	own := details\n	select {\n	case details = <-before:\n	default:\n	}\n" +
					"	select {\n	case before <- own:\n	default:\n	}\n	last, err := postgres.ReadOne(ctx, tx, progressSQL,",
			},
			{
				"notification-service/internal/notification/store.go",
				"func record(ctx context.Context,", "var before = make(chan []byte, 1)\n\nfunc record(ctx context.Context,",
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
		name: "copies-left-behind", does: "what is retried goes to the longest tier as well, and nothing ever leaves that one", scenario: "smtp-not-now",
		edits: []edit{
			{
				"notification-service/topology.go",
				"	q.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n",
				"	if delay < 3*time.Second {\n		q.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n	}\n",
			},
			{
				"notification-service/internal/consumer/copy.go",
				"	tell, failed := c.copyTo(ctx, finish, d, exchange, headers)\n",
				"	_, _ = c.copyTo(ctx, finish, d, c.config.Retries[len(c.config.Retries)-1], headers)\n" +
					"	tell, failed := c.copyTo(ctx, finish, d, exchange, headers)\n",
			},
		},
	},
	{
		name: "one-e-mail-often", does: "the e-mails of one order are sent six times each", scenario: "notifications-sigkill",
		edits: []edit{{
			"notification-service/internal/notification/notification.go",
			"	if err := withoutAddress(s.mailer.Send(ctx, email), email.To); err != nil {\n",
			"	for i := 0; i < 5 && len(email.To) > 7 && email.To[:7] == \"c000010\"; i++ {\n		_ = s.mailer.Send(ctx, email)\n	}\n" +
				"	if err := withoutAddress(s.mailer.Send(ctx, email), email.To); err != nil {\n",
		}},
	},
}
