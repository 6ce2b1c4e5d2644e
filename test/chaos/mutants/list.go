package main

import (
	"slices"

	"example.com/transactional-outbox/test/edit"
)

// mutants lists all.
var mutants = slices.Concat(deliveryMutants, policyMutants, consumerMutants, emailMutants)

// deliveryMutants lose, repeat or reorder messages.
var deliveryMutants = []mutant{
	{
		name: "confirms-off", description: "a message counts as published when it is written to the socket", scenario: "broker-silent",
		edits: []edit.Edit{{
			File: "outbox/rabbitmq/confirm_channel.go",
			Old:  "		all = append(all, sent{confirmation, route{m.ID, m.Exchange, m.RoutingKey}, i})\n",
			New:  "		_ = confirmation\n		c.free()\n		answer(i, publish.Result{Outcome: publish.Confirmed})\n",
		}},
	},
	{
		name: "mandatory-off", description: "the broker may drop a message that no queue is bound for", scenario: "unroutable",
		edits: []edit.Edit{{
			File: "outbox/rabbitmq/confirm_channel.go",
			Old:  "PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, true, false,",
			New:  "PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, false, false,",
		}},
	},
	{
		name: "losses-count", description: "a lost connection counts as a refusal of all events in hand", scenario: "flapping",
		edits: []edit.Edit{{
			File: "outbox/decide.go",
			Old:  "	default: // lost, or not sent\n		v.unknown = true\n",
			New:  "	default: // lost, or not sent\n		v.failure.Counts = true\n",
		}},
	},
	{
		name: "one-connection", description: "a worker keeps a connection on which nothing is answered", scenario: "one-queue-silent",
		edits: []edit.Edit{{
			File: "outbox/decide.go",
			Old:  "			if !w.heard.After(b.sentAt) {\n", New: "			if !w.heard.After(b.sentAt) && false {\n",
		}},
	},
	{
		name: "no-pauses", description: "a topic never pauses because its events are refused", scenario: "one-queue-full",
		edits: []edit.Edit{{
			File: "outbox/decide.go",
			Old:  "		v.pause = r.topics.refuse(e, errors.Is(result.Err, publish.ErrClosed)) || probe\n", New: "		r.topics.refuse(e, errors.Is(result.Err, publish.ErrClosed))\n",
		}},
	},
	{
		name: "one-host", description: "only the first host of AMQP_URL is tried", scenario: "node-sigkill", cluster: true,
		edits: []edit.Edit{{
			File: "outbox/rabbitmq/session.go",
			Old:  "	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] }) //nolint:gosec // not a secret\n",
			New:  "	nodes = nodes[:1]\n	rand.Shuffle(len(nodes), func(int, int) {})\n",
		}},
	},
	{
		name: "mark-before-confirm", description: "events are marked published before they are sent", scenario: "broker-silent",
		edits: []edit.Edit{{
			File: "outbox/worker.go",
			Old:  "	b := w.newBatch(ctx, claim)\n",
			New: "	var marked []uuid.UUID\n	for _, e := range claim.Events {\n		marked = append(marked, e.ID)\n	}\n" +
				"	w.write(ctx, store.Settlement{Published: marked})\n	b := w.newBatch(ctx, claim)\n",
		}},
	},
	{
		name: "no-turnstile", description: "claims run concurrently", scenario: "broker-silent",
		edits: []edit.Edit{{
			File: "outbox/internal/store/claim.go",
			Old:  "SELECT pg_advisory_xact_lock(cast('outbox_claims'::regclass::oid AS bigint))", New: "SELECT 1",
		}},
	},
	{
		name: "fence-removed", description: "a relay without its claim can still reschedule events, or fail them",
		test: "./outbox/internal/store TestFenced",
		edits: []edit.Edit{{
			File: "outbox/internal/store/settle.go",
			Old:  "  SELECT unnest(events) AS id FROM lease INTERSECT SELECT id FROM given\n", New: "  SELECT id FROM given\n",
		}},
	},
	{
		name: "order-ignored", description: "an order's next event does not wait for the one before",
		test: "./outbox/internal/store TestP7AClaimPassesOverEventsBehindAnUnsettledOne",
		edits: []edit.Edit{{
			File: "outbox/internal/store/claim.go",
			Old:  "    FROM due WHERE oldest = id AND NOT stops\n", New: "    FROM due WHERE NOT stops\n",
		}},
	},
	{
		name: "e-mails-without-order", description: "order-ignored, seen in the e-mails", scenario: "smtp-not-now",
		edits: []edit.Edit{{
			File: "outbox/internal/store/claim.go",
			Old:  "    FROM due WHERE oldest = id AND NOT stops\n", New: "    FROM due WHERE NOT stops\n",
		}},
	},
	{
		name: "lease-forgotten", description: "a claim never expires", scenario: "orders-crash-points",
		edits: []edit.Edit{{
			File: "outbox/internal/store/claim.go",
			Old:  "WHERE until <= now() FOR UPDATE SKIP LOCKED", New: "WHERE until = '-infinity' FOR UPDATE SKIP LOCKED",
		}},
	},
	{
		name: "leases-by-own-clock", description: "the relay's own clock decides when its lease ends", scenario: "clocks-apart",
		edits: []edit.Edit{
			{
				File: "outbox/internal/store/claim.go",
				Old:  "clock_timestamp() + cast(@lease AS float8) * interval '1 second'", New: "cast(@until AS timestamptz)",
			},
			{File: "outbox/internal/store/claim.go", Old: `"lease": lease.Seconds(),`, New: `"until": time.Now().Add(lease),`},
		},
	},
}
