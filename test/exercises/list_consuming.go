package main

import "example.com/transactional-outbox/test/edit"

// consuming are the exercises of chapters 7 to 9.
var consuming = []exercise{
	{
		chapter: "07-the-inbox",
		symptom: "a consumer is killed. Its messages come again and are acknowledged, but some of their e-mails are never sent.",
		look:    "outbox/inbox",
		module:  "outbox", pkg: "./inbox", test: "TestAnErrorOfTheHandlerRollsAllBack",
		edits: []edit.Edit{{
			File: "outbox/inbox/inbox.go",
			Old: "	return i.inTx(ctx, beginSQL, func(tx pgx.Tx) error {\n" +
				"		isNew, err := record(ctx, tx, i.consumer, ids)\n		if err != nil {\n			return err\n		}\n",
			New: "	var isNew map[string]bool\n	err := i.inTx(ctx, beginSQL, func(tx pgx.Tx) (err error) {\n" +
				"		isNew, err = record(ctx, tx, i.consumer, ids)\n		return err\n	})\n	if err != nil {\n		return err\n	}\n" +
				"	return i.inTx(ctx, beginSQL, func(tx pgx.Tx) error {\n",
		}},
	},
	{
		chapter: "08-retries",
		symptom: "a message that can never succeed was published a month ago. It still comes back every five minutes.",
		look:    "outbox/rabbitmq",
		module:  "outbox", pkg: "./rabbitmq", test: "TestP9ABadMessageStopsNoOther",
		edits: []edit.Edit{{
			File: "outbox/rabbitmq/consumer_copies.go",
			Old:  "	first := timeOf(m.Message, FirstFailedAtHeader, now)\n", New: "	first := timeOf(m.Message, FailedAtHeader, now)\n",
		}},
	},
	{
		chapter: "09-dead-letters",
		symptom: "one message ends the process each time. In the end it is a dead letter, and 200 good messages are dead letters with it.",
		look:    "outbox/rabbitmq",
		module:  "outbox", pkg: "./rabbitmq", test: "TestP9AMessageThatTakesTheDatabaseDownIsAlone",
		edits: []edit.Edit{{
			File: "outbox/rabbitmq/consumer_loop.go",
			Old:  "	if !m.Redelivered {\n		c.proven.Store(true)\n	}\n", New: "	c.proven.Store(true)\n",
		}},
	},
}
