package main

import (
	"slices"

	"example.com/transactional-outbox/test/edit"
)

// exercises has one for each chapter, in their order.
var exercises = slices.Concat(publishing, consuming, operating)

// publishing are the exercises of chapters 1 to 6.
var publishing = []exercise{
	{
		chapter: "01-the-naive-ways",
		symptom: "a customer gets an error, and the order is there all the same. No e-mail about it ever comes.",
		look:    "order-service/internal/order",
		module:  ".", pkg: "./order-service/internal/order", test: "TestP2NothingIsLeftOfAnOrderThatFailed",
		edits: []edit.Edit{
			{
				File: "order-service/internal/order/service.go",
				Old:  "		placed, err = placeIn(ctx, tx, r)\n		return err\n	})\n",
				New: "		placed, err = placeIn(ctx, tx, r)\n		return err\n	})\n	if err == nil {\n" +
					"		err = s.db.InTx(ctx, func(tx *postgres.Tx) error { return appendEvent(ctx, tx, keyCreated, placed, placed.CreatedAt) })\n	}\n",
			},
			{
				File: "order-service/internal/order/service.go",
				Old:  "	if err := insert(tx, placed); err != nil {\n		return Order{}, err\n	}\n	return placed, appendEvent(ctx, tx, keyCreated, placed, now)\n",
				New:  "	return placed, insert(tx, placed)\n",
			},
		},
	},
	{
		chapter: "02-one-transaction",
		symptom: "the API answers 201 with an order. A moment later it answers 404 for the same order. The service logs no error.",
		look:    "internal/postgres",
		module:  ".", pkg: "./internal/postgres", test: "TestAFailedStatementThatIsPassedOverIsNoCommit",
		edits: []edit.Edit{{
			File: "internal/postgres/tx.go",
			Old: "// readCommit returns an error if the server answers ROLLBACK to COMMIT. The server does so if\n" +
				"// a statement has failed and fn has ignored the error.\n" +
				"func readCommit(answers pgx.BatchResults) error {\n	answer, err := answers.Exec()\n" +
				"	if err == nil && answer.String() != \"COMMIT\" {\n		err = pgx.ErrTxCommitRollback\n	}\n	return err\n",
			New: "// readCommit reads the answer to COMMIT.\nfunc readCommit(answers pgx.BatchResults) error {\n	_, err := answers.Exec()\n	return err\n",
		}},
	},
	{
		chapter: "03-the-relay",
		symptom: "API and relay run as two processes. Events are published within milliseconds, but the last one of many that come at once waits for up to a second.",
		look:    "order-service/internal/wakeup",
		module:  ".", pkg: "./order-service/internal/wakeup", test: "TestManyCommitsAreOneNotificationEach5ms",
		edits: []edit.Edit{{
			File: "order-service/internal/wakeup/notify.go",
			Old:  "committed: make(chan struct{}, 1)}", New: "committed: make(chan struct{})}",
		}},
	},
	{
		chapter: "04-confirms",
		symptom: "some events are bad, and RabbitMQ closes the relay's channel because of them, again and again. Some hours later, good events are failed as well.",
		look:    "order-service/internal/relay",
		module:  ".", pkg: "./order-service/internal/relay", test: "TestP4OneOfABatchIsNotBlamedForTheChannel",
		edits: []edit.Edit{
			{
				File: "order-service/internal/relay/decide.go",
				Old:  "		alone := len(events) == 1\n", New: "",
			},
			{
				File: "order-service/internal/relay/decide.go",
				Old:  "		case r.Outcome == publish.Refused, alone && errors.Is(r.Err, publish.ErrSessionClosed):\n",
				New:  "		case r.Outcome == publish.Refused, errors.Is(r.Err, publish.ErrSessionClosed):\n",
			},
		},
	},
	{
		chapter: "05-leases-and-fencing",
		symptom: "both relays are slow, and each batch takes longer than its lease. RabbitMQ confirms every batch, but the same events are published again and again.",
		look:    "order-service/internal/outbox",
		module:  ".", pkg: "./order-service/internal/outbox", test: "TestMarkPublishedNeedsNoLease",
		edits: []edit.Edit{
			{
				File: "order-service/internal/outbox/settle.go",
				Old:  "WITH done AS (\n  DELETE FROM outbox_queue WHERE id = ANY (@ids) RETURNING id, retry_count\n)\n",
				New: "WITH done AS (\n  DELETE FROM outbox_queue WHERE id = ANY (@ids)\n" +
					"    AND id IN (SELECT unnest(events) FROM outbox_claims WHERE token = @token) RETURNING id, retry_count\n)\n",
			},
			{
				File: "order-service/internal/outbox/settle.go",
				Old:  "SELECT id, coalesce(retry_count, 0) FROM unnest(cast(@ids AS uuid[])) AS confirmed (id) LEFT JOIN done USING (id)\nORDER BY id\n",
				New:  "SELECT id, retry_count FROM done ORDER BY id\n",
			},
			{
				File: "order-service/internal/outbox/settle.go",
				Old:  `markPublishedSQL, postgres.Args{"ids": uuids(ids)})`, New: `markPublishedSQL, postgres.Args{"ids": uuids(ids), "token": token})`,
			},
		},
	},
	{
		chapter: "06-order",
		symptom: "another service hears that an order is cancelled and, some minutes later, that it was created.",
		look:    "order-service/internal/outbox",
		module:  ".", pkg: "./order-service/internal/outbox", test: "TestP7AClaimPassesOverEventsBehindAnUnsettledOne",
		edits: []edit.Edit{{
			File: "order-service/internal/outbox/claim.go",
			Old:  "    ORDER BY aggregate_version LIMIT 1) o ON true\n", New: "    ORDER BY available_at LIMIT 1) o ON true\n",
		}},
	},
}
