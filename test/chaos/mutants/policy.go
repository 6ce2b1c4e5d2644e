package main

import "example.com/transactional-outbox/test/edit"

// oldEnough is the condition of an event that was refused for too long.
const oldEnough = "q.retry_count + 1 >= @least AND q.refused_since <= now() - cast(@give_up AS float8) * interval '1 second'"

// policyMutants break what the relay does about events that are not taken: how long it tries, and
// what pauses meanwhile.
var policyMutants = []mutant{
	{
		name: "give-up-at-once", description: "an event fails when it is refused the first time", scenario: "queue-full",
		edits: []edit.Edit{{File: "outbox/internal/store/settle.go", Old: oldEnough, New: "cast(@least AS int) > 0 AND cast(@give_up AS float8) > 0"}},
	},
	{
		name: "give-up-never", description: "an event that is refused for ever never fails",
		test:  "./outbox/internal/store TestAnEventFailsByAgeAndNumber",
		edits: []edit.Edit{{File: "outbox/internal/store/settle.go", Old: oldEnough, New: "cast(@least AS int) < 0 AND cast(@give_up AS float8) < 0"}},
	},
	{
		name: "age-alone", description: "an event fails by age alone, however seldom it was tried",
		test:  "./outbox/internal/store TestAnEventFailsByAgeAndNumber",
		edits: []edit.Edit{{File: "outbox/internal/store/settle.go", Old: "q.retry_count + 1 >= @least", New: "cast(@least AS int) > 0"}},
	},
	{
		name: "one-event-pauses-a-topic", description: "one refused event pauses its topic",
		test:  "./outbox TestP4ATopicPausesWhenTwoOfItsEventsAreRefused",
		edits: []edit.Edit{{File: "outbox/topics.go", Old: "	refusedBeforePause = 2\n", New: "	refusedBeforePause = 1\n"}},
	},
	{
		name: "pauses-ignored", description: "a claim takes the events of paused topics",
		test:  "./outbox/internal/store TestAClaimHaltsEventsOfPausedTopics",
		edits: []edit.Edit{{File: "outbox/internal/store/claim.go", Old: " AND topic NOT IN (SELECT topic FROM paused)", New: ""}},
	},
	{
		name: "the-star-ignored", description: "the topic * does not hold the others",
		test:  "./outbox/internal/store TestTheStarHoldsEverything",
		edits: []edit.Edit{{File: "outbox/internal/store/claim.go", Old: " AND NOT EXISTS (SELECT FROM paused WHERE topic = '*')", New: ""}},
	},
	{
		name: "places-held-for-ever", description: "an event without an answer holds its place in the window", scenario: "one-queue-silent",
		edits: []edit.Edit{
			{File: "outbox/hand.go", Old: "		if !b.slow {\n", New: "		{\n"},
			{File: "outbox/decide.go", Old: "				w.replace()\n", New: "				_ = w.replace\n"},
		},
	},
	{
		name: "the-oldest-stands-for-its-topic", description: "the oldest event of a topic tries it each time",
		test: "./outbox/internal/store TestAProbeIsTheEventThatWasTriedLeast",
		edits: []edit.Edit{{
			File: "outbox/internal/store/topics.go",
			Old:  "        ORDER BY topic, retry_count, seq LIMIT @overtaken + 1) first) counted\n", New: "        ORDER BY topic, seq LIMIT @overtaken + 1) first) counted\n",
		}},
	},
	{
		name: "an-overtaken-probe-is-an-answer", description: "a paused topic waits ten seconds for the answer to a probe that was never sent",
		test: "./outbox TestP4AProbeThatIsOvertakenDelaysNothing",
		edits: []edit.Edit{{
			File: "outbox/settle.go",
			Old:  "w.probes && (v.unknown || v.overtaken || v.failure.Final)", New: "w.probes && (v.unknown || v.failure.Final)",
		}},
	},
	{
		name: "all-are-the-cause", description: "each event that was sent when the server closed the channel counts as the cause",
		test: "./outbox TestP4TheEventThatClosesThePublisherIsFound",
		edits: []edit.Edit{{
			File: "outbox/settle.go",
			Old:  "w.suspects.add(a.event.ID, len(w.losses) == 1, errors.Is", New: "w.suspects.add(a.event.ID, true, errors.Is",
		}},
	},
	{
		name: "late-confirms-ignored", description: "a confirm that comes after the timeout does not count",
		test: "./outbox TestP4AnAnswerAfterTheTimeoutStillCounts",
		edits: []edit.Edit{{
			File: "outbox/settle.go",
			Old:  "		if result.Outcome == publish.Confirmed && !it.verdict.published {\n",
			New:  "		if result.Outcome == publish.Confirmed && it.verdict.unknown {\n",
		}},
	},
	{
		name: "leases-not-renewed", description: "the lease of what waits for answers is not renewed",
		test: "./outbox TestLeasesAreRenewedWhileEventsAreInHand",
		edits: []edit.Edit{{
			File: "outbox/settle.go",
			Old:  "		held, err = w.events.Renew(ctx, w.hand.tokens(), w.config.Lease)\n", New: "		held = w.hand.tokens()\n",
		}},
	},
	{
		name: "halted-without-a-row", description: "the row of a resumed topic is deleted while some of its events are halted",
		test: "./outbox/internal/store TestNoEventStaysHaltedWhenTopicsRace",
		edits: []edit.Edit{{
			File: "outbox/internal/store/topics.go",
			Old:  "  WHERE resumed AND (SELECT true FROM outbox_queue WHERE topic = t.topic AND halted LIMIT 1) IS NULL\n",
			New:  "  WHERE resumed\n",
		}},
	},
}
