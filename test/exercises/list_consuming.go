package main

import "example.com/transactional-outbox/test/edit"

// consuming are the exercises of chapters 7 to 9.
var consuming = []exercise{
	{
		chapter: "07-the-inbox",
		symptom: "a consumer is killed. Its messages come again and are acknowledged, but some of their e-mails are never sent.",
		look:    "notification-service/internal/consumer",
		module:  ".", pkg: "./notification-service/internal/consumer", test: "TestADuplicateGoesOnFromItsState",
		edits: []edit.Edit{{
			File: "notification-service/internal/consumer/process.go",
			Old: "	case found.notification.HasLease:\n		return success, c.send(d, mail, found.notification)\n" +
				"	case found.inbox == inbox.First:\n		return success, nil // superseded\n	default:\n		return duplicate, nil\n	}\n",
			New: "	case found.inbox == inbox.Duplicate:\n		return duplicate, nil\n" +
				"	case found.notification.HasLease:\n		return success, c.send(d, mail, found.notification)\n	default:\n		return success, nil // superseded\n	}\n",
		}},
	},
	{
		chapter: "08-retries",
		symptom: "the mail server was away for an hour. Hundreds of good messages are dead letters now, with the code retries-exhausted.",
		look:    "notification-service/internal/consumer",
		module:  ".", pkg: "./notification-service/internal/consumer", test: "TestAMessageHeldTooLongIsRetriedAndSpendsNothing",
		edits: []edit.Edit{{
			File: "notification-service/internal/consumer/retry.go",
			Old:  "	if errors.Is(err, errHeldTooLong) {\n		// No counter is raised: what the message needs was away.\n		return c.retryLater(d, c.lastTier(), nil, err)\n	}\n",
			New:  "",
		}},
	},
	{
		chapter: "09-dead-letters",
		symptom: "one message ends the process each time. In the end it is a dead letter, and 200 good messages are dead letters with it.",
		look:    "notification-service/internal/consumer",
		module:  ".", pkg: "./notification-service/internal/consumer", test: "TestP9OneMessageAtATimeUntilANewOneSucceeds",
		edits: []edit.Edit{{
			File: "notification-service/internal/consumer/consume.go",
			Old:  "		if c.handle(ctx, d) && !d.Redelivered {\n", New: "		if c.handle(ctx, d) {\n",
		}},
	},
}
