package main

import "example.com/transactional-outbox/test/edit"

// Files of the consumer that several mutants change.
const (
	loopFile  = "outbox/rabbitmq/consumer_loop.go"
	copyFile  = "outbox/rabbitmq/consumer_copies.go"
	queueFile = "outbox/rabbitmq/queue.go"
	inboxFile = "outbox/inbox/inbox.go"
)

// consumerMutants break the consumer, the inbox or the copies of failed messages.
var consumerMutants = []mutant{
	{
		name: "ack-before-commit", description: "messages are acknowledged when they arrive", scenario: "notifications-crash-points",
		edits: []edit.Edit{{
			File: loopFile,
			Old:  "	err = c.handle(messages) //nolint:contextcheck // a call goes on until c.finish\n	if err == nil {\n		return nil, c.acknowledge(ch, messages)\n	}\n",
			New:  "	acknowledged := c.acknowledge(ch, messages)\n	err = c.handle(messages)\n	if err == nil {\n		return nil, acknowledged\n	}\n",
		}},
	},
	{
		name: "inbox-in-another-transaction", description: "a message is recorded in a transaction before that of its effect", scenario: "notifications-crash-points",
		edits: []edit.Edit{{
			File: inboxFile,
			Old:  "	return i.inTx(ctx, beginSQL, func(tx pgx.Tx) error {\n		isNew, err := record(ctx, tx, i.consumer, ids)\n		if err != nil {\n			return err\n		}\n",
			New: "	var isNew map[string]bool\n	err := i.inTx(ctx, beginSQL, func(tx pgx.Tx) (err error) {\n		isNew, err = record(ctx, tx, i.consumer, ids)\n		return err\n	})\n" +
				"	if err != nil {\n		return err\n	}\n	return i.inTx(ctx, beginSQL, func(tx pgx.Tx) error {\n",
		}},
	},
	{
		name: "dedupe-removed", description: "the inbox takes a known message for a new one",
		test: "./outbox/inbox TestP5AMessageHasItsEffectOnce",
		edits: []edit.Edit{{
			File: inboxFile, Old: "			if isNew[ids[n]] {\n", New: "			if isNew[ids[n]] || true {\n",
		}},
	},
	{
		name: "known-messages-write-nothing", description: "a batch of known messages does not wait for a synchronous standby",
		test: "./outbox/inbox TestKnownMessagesLockTheirRows",
		edits: []edit.Edit{{
			File: "outbox/inbox/record.go",
			Old:  "ON CONFLICT (consumer, message_id) DO UPDATE SET processed_at = known.processed_at WHERE false`", New: "ON CONFLICT (consumer, message_id) DO NOTHING`",
		}},
	},
	{
		name: "outages-blamed-on-messages", description: "an error counts as the message's own although the handler is not ready",
		test: "./outbox/rabbitmq TestP9NothingIsCopiedWhileTheHandlerIsNotReady",
		edits: []edit.Edit{{
			File: loopFile, Old: "	if notReady != nil {\n", New: "	if notReady != nil && false {\n",
		}},
	},
	{
		name: "one-try", description: "a message is a dead letter when it fails the first time", scenario: "way-back-deleted",
		edits: []edit.Edit{{
			File: copyFile, Old: "	if now.Sub(first) >= c.queue.GiveUp {\n", New: "	if now.Sub(first) >= 0 {\n",
		}},
	},
	{
		name: "copies-not-confirmed", description: "a message is acknowledged before its copy is confirmed", scenario: "way-back-deleted",
		edits: []edit.Edit{{
			File: copyFile, Old: "		err := c.publishCopy(moved)\n", New: "		_ = c.publishCopy(moved)\n		var err error\n",
		}},
	},
	{
		name: "one-by-one-for-ever", description: "after its start, a consumer waits for the copy of a message before it takes the next one", scenario: "copies-blocked",
		edits: []edit.Edit{{
			File: copyFile, Old: "		ch.full = true\n", New: "		ch.full = false\n",
		}},
	},
	{
		name: "copies-left-behind", description: "each retry also goes to the longest tier, and no message leaves that tier", scenario: "way-back-deleted",
		edits: []edit.Edit{
			{
				File: queueFile,
				Old:  "	retry.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n",
				New:  "	if delay < 3*time.Second {\n		retry.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n	}\n",
			},
			{
				File: copyFile,
				Old:  "		err := c.publishUntilConfirmed(ctx, m, moved)\n",
				New: "		if also := moved; also.Exchange != c.queue.deadLetterExchange() {\n			also.Exchange = c.queue.retryExchange(c.queue.Retry[len(c.queue.Retry)-1])\n" +
					"			_ = c.publishUntilConfirmed(ctx, m, also)\n		}\n		err := c.publishUntilConfirmed(ctx, m, moved)\n",
			},
		},
	},
	{
		name: "classic-retry-queues", description: "retry queues are classic queues, which cannot dead-letter at least once", scenario: "retries-meet-nothing",
		edits: []edit.Edit{{
			File: queueFile,
			Old:  "	retry.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n",
			New:  "	retry.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n	retry.Arguments[\"x-queue-type\"] = \"classic\"\n	delete(retry.Arguments, \"x-dead-letter-strategy\")\n",
		}},
	},
	{
		name: "retries-at-most-once", description: "retry queues dead-letter at most once", scenario: "retries-meet-nothing",
		edits: []edit.Edit{{
			File: queueFile, Old: "		\"x-dead-letter-strategy\": \"at-least-once\",\n", New: "",
		}},
	},
}
