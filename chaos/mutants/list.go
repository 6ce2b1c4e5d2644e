package main

import "slices"

// mutants are all.
var mutants = slices.Concat(ofDelivery, ofEmails)

// ofDelivery are ways to lose, repeat or mix up messages.
var ofDelivery = []mutant{
	{
		name: "confirms-off", does: "what is written to the socket counts as published", scenario: "broker-silent",
		edits: []edit{{
			"internal/rabbitmq/publisher.go",
			"func (p *Publisher) await(confirmation *amqp.DeferredConfirmation, late <-chan struct{}) Result {\n",
			"func (p *Publisher) await(confirmation *amqp.DeferredConfirmation, late <-chan struct{}) Result {\n	if true {\n		return Result{Outcome: Confirmed}\n	}\n",
		}},
	},
	{
		name: "mandatory-off", does: "the broker may drop what no queue is bound for", scenario: "unroutable",
		edits: []edit{{
			"internal/rabbitmq/publisher.go",
			"PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, true, false,",
			"PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, false, false,",
		}},
	},
	{
		name: "mark-before-confirm", does: "events are marked published before they are sent", scenario: "broker-silent",
		edits: []edit{{
			"order-service/internal/relay/relay.go",
			"	batch := w.messages(finish, claim.Events)\n",
			"	for _, e := range claim.Events {\n		_ = w.outbox.MarkPublished(finish, []uuid.UUID{e.ID})\n	}\n	batch := w.messages(finish, claim.Events)\n",
		}},
	},
	{
		name: "fence-removed", does: "whoever lost its lease may still give events back", scenario: "relay-stopped",
		edits: []edit{
			{
				"order-service/internal/outbox/settle.go",
				"WHERE id = ANY (@ids) AND lease_token = @token AND status = 'in_progress'", "WHERE id = ANY (@ids)",
			},
			{ // the table's own check would stop it
				"order-service/internal/outbox/settle.go",
				"available_at = now(), lease_token = NULL, locked_by = NULL\n  FROM held",
				"available_at = now(), lease_token = NULL, locked_by = NULL, published_at = NULL\n  FROM held",
			},
		},
	},
	{
		name: "order-ignored", does: "an order's next event need not wait for the one before", scenario: "broker-silent",
		edits: []edit{{
			"order-service/internal/outbox/claim.go",
			"        AND p.status NOT IN ('published', 'discarded'))", "        AND p.status NOT IN ('published', 'discarded', 'pending', 'in_progress'))",
		}},
	},
	{
		name: "lease-forgotten", does: "a claim takes only what is pending", scenario: "orders-crash-points",
		edits: []edit{{
			"order-service/internal/outbox/claim.go",
			"WHERE o.status IN ('pending', 'in_progress') AND o.available_at <= now()", "WHERE o.status = 'pending' AND o.available_at <= now()",
		}},
	},
	{
		name: "leases-by-own-clock", does: "the relay says when its lease ends, by its own clock", scenario: "clocks-apart",
		edits: []edit{
			{"order-service/internal/outbox/claim.go", "now() + @lease * interval '1 second'", "@until"},
			{"order-service/internal/outbox/claim.go", `"lease": lease.Seconds(),`, `"until": time.Now().Add(lease),`},
		},
	},
	{
		name: "library-recovery", does: "the client library reconnects by itself, while a session that has ended waits for what is in hand", scenario: "broker-reset-then-sigkill",
		edits: []edit{
			{
				"internal/rabbitmq/session.go",
				"		Heartbeat:  heartbeat,\n",
				"		Heartbeat:  heartbeat,\n		Recovery:   &amqp.Recovery{ReconnectionConfig: &amqp.ReconnectionConfig{MaxRetryCount: 50, RetryInterval: 300 * time.Millisecond}},\n",
			},
			{
				"notification-service/internal/consumer/take.go",
				"	case errors.Is(cause, context.Canceled):\n", "	default:\n",
			},
		},
	},
	{
		name: "ack-before-commit", does: "a message is acknowledged when it arrives", scenario: "notifications-crash-points",
		edits: []edit{{
			"notification-service/internal/consumer/process.go",
			"	outcome, err := c.process(ctx, m)\n",
			"	_ = m.Ack()\n	m.Ack = func() error { return nil }\n	outcome, err := c.process(ctx, m)\n",
		}},
	},
	{
		name: "dedupe-removed", does: "neither the inbox nor the state of the effect stops a repeat", scenario: "duplicated-and-shuffled",
		edits: []edit{{
			"notification-service/internal/consumer/record.go",
			"First: verdicts[i] == inbox.First,", "First: true,",
		}},
	},
	{
		name: "classic-retry-queues", does: "retry queues are of the kind that cannot wait for an answer", scenario: "retries-meet-nothing",
		edits: []edit{{
			"notification-service/topology.go",
			"	q.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n",
			"	q.Arguments[\"x-message-ttl\"] = delay.Milliseconds()\n	q.Arguments[\"x-queue-type\"] = \"classic\"\n	delete(q.Arguments, \"x-dead-letter-strategy\")\n",
		}},
	},
	{
		name: "retries-at-most-once", does: "retry queues hand on without waiting for an answer", scenario: "retries-meet-nothing",
		edits: []edit{{
			"notification-service/topology.go",
			"		\"x-dead-letter-strategy\": \"at-least-once\",\n", "",
		}},
	},
}
