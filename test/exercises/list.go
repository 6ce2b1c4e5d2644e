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
				New: "		placed, err = placeIn(ctx, tx, r)\n		return err\n	})\n	if err == nil {\n		err = s.db.InGorm(ctx, func(tx *gorm.DB) error {\n" +
					"			return appendEvent(ctx, tx, topicCreated, placed, placed.CreatedAt)\n		})\n	}\n",
			},
			{
				File: "order-service/internal/order/service.go",
				Old:  "	if err := insert(tx, &placed); err != nil {\n		return Order{}, err\n	}\n	return placed, appendEvent(ctx, tx, topicCreated, placed, placed.CreatedAt)\n",
				New:  "	err = insert(tx, &placed)\n	return placed, err\n",
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
			Old:  "	err := db.gorm.WithContext(ctx).Transaction(fn, &sql.TxOptions{Isolation: sql.LevelReadCommitted})\n",
			New: "	tx := db.gorm.WithContext(ctx).Begin(&sql.TxOptions{Isolation: sql.LevelReadCommitted})\n" +
				"	if tx.Error != nil {\n		return tx.Error\n	}\n	defer tx.Rollback() // does nothing after the commit\n" +
				"	err := fn(tx)\n	if err == nil {\n		tx.Commit()\n	}\n",
		}},
	},
	{
		chapter: "03-the-relay",
		symptom: "API and relay run as two processes. Events are published within milliseconds, but the last one of many that come at once waits for up to a second.",
		look:    "outbox",
		module:  "outbox", pkg: ".", test: "TestManyCommitsAreOneNotificationEach5ms",
		edits: []edit.Edit{{
			File: "outbox/waker.go",
			Old:  "committed: make(chan struct{}, 1), log: log}", New: "committed: make(chan struct{}), log: log}",
		}},
	},
	{
		chapter: "04-confirms",
		symptom: "some events are bad, and RabbitMQ closes the relay's channel because of them, again and again. A day later, good events are failed as well.",
		look:    "outbox",
		module:  "outbox", pkg: ".", test: "TestP4TheEventThatClosesThePublisherIsFound",
		edits: []edit.Edit{{
			File: "outbox/settle.go",
			Old:  "w.suspects.add(a.event.ID, len(w.losses) == 1, errors.Is", New: "w.suspects.add(a.event.ID, true, errors.Is",
		}},
	},
	{
		chapter: "05-leases-and-fencing",
		symptom: "both relays are slow, and each batch takes longer than its lease. RabbitMQ confirms every batch, but the same events are published again and again.",
		look:    "outbox/internal/store",
		module:  "outbox", pkg: "./internal/store", test: "TestAMarkNeedsNoLease",
		edits: []edit.Edit{
			{
				File: "outbox/internal/store/settle.go",
				Old:  "  DELETE FROM outbox_queue WHERE id = ANY (` + idsSQL + `) RETURNING id, slot, retry_count\n)",
				New: "  DELETE FROM outbox_queue WHERE id = ANY (` + idsSQL + `)\n" +
					"    AND id IN (SELECT unnest(events) FROM outbox_claims WHERE token = cast(@token AS uuid)) RETURNING id, slot, retry_count\n)",
			},
			{
				File: "outbox/internal/store/settle.go",
				Old: "  SELECT id, slot, retry_count FROM done\n  UNION ALL\n  SELECT e.id, e.slot, 0 FROM unnest(` + idsSQL + `) AS other (id),\n" +
					"  LATERAL (SELECT id, slot FROM outbox_events WHERE id = other.id LIMIT 1) e\n  WHERE other.id NOT IN (SELECT id FROM done)\n",
				New: "  SELECT id, slot, retry_count FROM done\n",
			},
			{
				File: "outbox/internal/store/settle.go",
				Old:  `markPublishedSQL, args{"ids": IDs(t.Published)}`, New: `markPublishedSQL, args{"ids": IDs(t.Published), "token": t.Token}`,
			},
		},
	},
	{
		chapter: "06-order",
		symptom: "another service hears that an order is cancelled and, some minutes later, that it was created.",
		look:    "outbox/internal/store",
		module:  "outbox", pkg: "./internal/store", test: "TestP7AClaimPassesOverEventsBehindAnUnsettledOne",
		edits: []edit.Edit{{
			File: "outbox/internal/store/claim.go",
			Old:  "    ORDER BY version LIMIT 1) o ON true\n", New: "    ORDER BY available_at LIMIT 1) o ON true\n",
		}},
	},
}
