package main

import "example.com/transactional-outbox/test/edit"

// operating are the exercises of chapters 10 to 13.
var operating = []exercise{
	{
		chapter: "10-watching-it",
		symptom: "the only relay died an hour ago. Its last events are not published, but outbox_oldest_due_age_seconds is 0, and no alert about them fires.",
		look:    "outbox/internal/store",
		module:  "outbox", pkg: "./internal/store", test: "TestBacklogReportsTheOldestDueEvent",
		edits: []edit.Edit{{
			File: "outbox/internal/store/backlog.go",
			Old:  "           AND id NOT IN (SELECT unnest(events) FROM outbox_claims WHERE until > now())\n",
			New:  "           AND id NOT IN ` + claimedIDsSQL + `\n",
		}},
	},
	{
		chapter: "11-several-replicas",
		symptom: "with one relay all is well. With three relays under load, two of them publish the same events at the same time.",
		look:    "outbox/internal/store",
		module:  "outbox", pkg: "./internal/store", test: "TestTheTurnstileSerializesClaims",
		edits: []edit.Edit{
			{
				File: "outbox/internal/store/claim.go",
				Old:  " It is a statement of its own: the next statement's snapshot then includes what\n// the previous claim committed. The lock ends",
				New:  " The lock ends",
			},
			{
				File: "outbox/internal/store/claim.go",
				Old:  "WITH paused AS MATERIALIZED (` + pausedSQL + `\n", New: "WITH turnstile AS MATERIALIZED (\n` + TurnstileSQL + `\n), paused AS MATERIALIZED (` + pausedSQL + `\n",
			},
			{
				File: "outbox/internal/store/claim.go",
				Old:  "  SELECT id, bytes, aggregate, aggregate_id, version, available_at FROM outbox_queue\n",
				New:  "  SELECT id, bytes, aggregate, aggregate_id, version, available_at FROM turnstile, outbox_queue\n",
			},
			{
				File: "outbox/internal/store/claim.go",
				Old:  "		statement{doing: \"waiting for other claims\", sql: TurnstileSQL},\n", New: "",
			},
		},
	},
	{
		chapter: "12-going-further-with-cdc",
		symptom: "the reader of the log is killed between two events of one transaction. The next reader never gets the second event from the log.",
		look:    "examples/cdc/feed",
		module:  "examples/cdc", pkg: "./feed", test: "TestThePositionStopsBeforeTheFirstUnfinishedEvent",
		edits: []edit.Edit{{
			File: "examples/cdc/feed/feed.go",
			Old:  "		if e.last {\n			f.before = e.end\n		}\n", New: "		f.before = e.end\n",
		}},
	},
	{
		chapter: "13-production",
		symptom: "primary and standby behind PgBouncer change roles. The new primary is ready, but orders still fail, again and again.",
		look:    "internal/postgres",
		module:  ".", pkg: "./internal/postgres", test: "TestAPoolLeavesAServerThatIsReadOnly",
		edits: []edit.Edit{{
			File: "internal/postgres/hosts.go",
			Old:  "		if err.Code == readOnly || err.Code == notSupported {\n			leave()\n			return false\n		}\n		return keeps(conn, err)\n",
			New:  "		return err.Code != readOnly && err.Code != notSupported && keeps(conn, err)\n",
		}},
	},
}
