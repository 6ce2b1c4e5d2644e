package main

import "slices"

// mutants lists all.
var mutants = slices.Concat(deliveryMutants, emailMutants)

// deliveryMutants lose, repeat or reorder messages.
var deliveryMutants = []mutant{
	{
		name: "confirms-off", description: "a message counts as published when it is written to the socket", scenario: "broker-silent",
		edits: []edit{{
			"internal/rabbitmq/publisher.go",
			"func (p *Publisher) await(confirmation *amqp.DeferredConfirmation, late <-chan struct{}) Result {\n",
			"func (p *Publisher) await(confirmation *amqp.DeferredConfirmation, late <-chan struct{}) Result {\n	if true {\n		return Result{Outcome: Confirmed}\n	}\n",
		}},
	},
	{
		name: "mandatory-off", description: "the broker may drop a message that no queue is bound for", scenario: "unroutable",
		edits: []edit{{
			"internal/rabbitmq/publisher.go",
			"PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, true, false,",
			"PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, false, false,",
		}},
	},
	{
		name: "mark-before-confirm", description: "events are marked published before they are sent", scenario: "broker-silent",
		edits: []edit{{
			"order-service/internal/relay/worker.go",
			"	batch := w.newBatch(finish, claim.Events)\n",
			"	marked := w.config.decide(nil, nil).published\n" +
				"	for _, e := range claim.Events {\n		marked = append(marked, e.ID)\n	}\n" +
				"	_ = w.outbox.MarkPublished(finish, [16]byte{}, marked)\n	batch := w.newBatch(finish, claim.Events)\n",
		}},
	},
	{
		name: "no-turnstile", description: "claims run concurrently", scenario: "broker-silent",
		edits: []edit{{
			"order-service/internal/outbox/claim.go",
			"SELECT pg_advisory_xact_lock(hashtext('outbox_claims'))", "SELECT 1",
		}},
	},
	{
		name: "fence-removed", description: "a relay without its claim can still reschedule events, or fail them",
		test: "./order-service/internal/outbox TestRescheduleReleaseAndFailAreFenced",
		edits: []edit{{
			"order-service/internal/outbox/settle.go",
			"  SELECT unnest(events) AS id FROM lease INTERSECT SELECT unnest(cast(@ids AS uuid[]))\n", "  SELECT unnest(cast(@ids AS uuid[])) AS id\n",
		}},
	},
	{
		name: "order-ignored", description: "an order's next event does not wait for the one before", scenario: "broker-silent",
		edits: []edit{{
			"order-service/internal/outbox/claim.go",
			"    FROM due WHERE oldest = id\n", "    FROM due\n",
		}},
	},
	{
		name: "lease-forgotten", description: "a claim never expires", scenario: "orders-crash-points",
		edits: []edit{{
			"order-service/internal/outbox/claim.go",
			"WHERE until <= now() FOR UPDATE SKIP LOCKED", "WHERE until = '-infinity' FOR UPDATE SKIP LOCKED",
		}},
	},
	{
		name: "leases-by-own-clock", description: "the relay's own clock decides when its lease ends", scenario: "clocks-apart",
		edits: []edit{
			{"order-service/internal/outbox/claim.go", "clock_timestamp() + @lease * interval '1 second'", "@until"},
			{"order-service/internal/outbox/claim.go", `"lease": lease.Seconds(),`, `"until": time.Now().Add(lease),`},
		},
	},
	{
		name: "library-recovery", description: "the client library reconnects by itself, and an ended session finishes its messages", scenario: "broker-reset-then-sigkill",
		edits: []edit{
			{
				"internal/rabbitmq/session.go",
				"		Heartbeat:  heartbeat,\n",
				"		Heartbeat:  heartbeat,\n		Recovery:   &amqp.Recovery{ReconnectionConfig: &amqp.ReconnectionConfig{MaxRetryCount: 50, RetryInterval: 300 * time.Millisecond}},\n",
			},
			{
				"notification-service/internal/consumer/consume.go",
				"	case errors.Is(cause, context.Canceled):\n", "	default:\n",
			},
		},
	},
	{
		name: "ack-before-commit", description: "a message is acknowledged when it arrives", scenario: "notifications-crash-points",
		edits: []edit{{
			"notification-service/internal/consumer/process.go",
			"	outcome, err := c.process(d)",
			"	_ = d.Ack()\n	d.Ack = func() error { return nil }\n	outcome, err := c.process(d)",
		}},
	},
	{
		name: "dedupe-removed", description: "neither the inbox nor the state of the effect stops a repeat", scenario: "duplicated-and-shuffled",
		edits: []edit{{
			"notification-service/internal/consumer/record.go",
			"First: inboxResults[i] == inbox.First,", "First: true,",
		}},
	},
	{
		name: "classic-retry-queues", description: "retry queues are classic queues, which cannot dead-letter at least once", scenario: "retries-meet-nothing",
		edits: []edit{{
			"notification-service/topology.go",
			"	q.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n",
			"	q.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n	q.Arguments[\"x-queue-type\"] = \"classic\"\n	delete(q.Arguments, \"x-dead-letter-strategy\")\n",
		}},
	},
	{
		name: "retries-at-most-once", description: "retry queues dead-letter at most once", scenario: "retries-meet-nothing",
		edits: []edit{{
			"notification-service/topology.go",
			"		\"x-dead-letter-strategy\": \"at-least-once\",\n", "",
		}},
	},
}
