package main

import "example.com/transactional-outbox/test/edit"

// Files of notification-service that several mutants change.
const (
	effectFile    = "notification-service/internal/effect/effect.go"
	publisherFile = "notification-service/internal/mailer/publisher.go"
	settingsFile  = "notification-service/config.go"
)

// emailMutants send wrong e-mails, too many, none, or in the wrong order.
var emailMutants = []mutant{
	{
		name: "without-order-progress", description: "an event that comes late gets its e-mail all the same", scenario: "duplicated-and-shuffled",
		edits: []edit.Edit{{
			File: effectFile,
			Old:  "SET last_version = excluded.last_version WHERE known.last_version < excluded.last_version\n",
			New:  "SET last_version = excluded.last_version\n",
		}},
	},
	{
		name: "supersedes-ignored", description: "an e-mail that a newer one has overtaken is sent",
		test: "./notification-service/internal/effect TestAnEmailHasAllThatTheRelayNeeds",
		edits: []edit.Edit{{
			File: effectFile, Old: "Payload: payload, Supersedes: true,", New: "Payload: payload,",
		}},
	},
	{
		name: "a-failed-e-mail-blocks", description: "the later e-mails of an order wait for a failed one", scenario: "smtp-rejecting",
		edits: []edit.Edit{{
			File: settingsFile, Old: "	r.FailedLetPass, r.LongestTopicPause,", New: "	r.FailedLetPass, r.LongestTopicPause = false, time.Second\n	_, r.LongestTopicPause,",
		}},
	},
	{
		name: "marks-not-durable", description: "the mark of an e-mail does not wait for the disk",
		test: "./notification-service TestTheRelayAndTheConsumerTakeTheirSettings",
		edits: []edit.Edit{{
			File: settingsFile, Old: "	r.SettleAfter, r.DurableMarks = time.Microsecond, true\n", New: "	r.SettleAfter = time.Microsecond\n",
		}},
	},
	{
		name: "marks-together", description: "the mark of an e-mail waits for the answers to others",
		test: "./outbox TestP6EachAnswerIsSettledAtOnce",
		edits: []edit.Edit{{
			File: "outbox/hand.go", Old: "eager: c.SettleAfter < eagerBelow}", New: "eager: c.SettleAfter < 0}",
		}},
	},
	{
		name: "all-connections-for-one-domain", description: "a slow domain may use all connections", scenario: "smtp-late",
		edits: []edit.Edit{{
			File: "notification-service/internal/mailer/pool.go",
			Old:  "func (p *pool) share() int { return max(1, p.allowed()/2) }", New: "func (p *pool) share() int { return p.allowed() }",
		}},
	},
	{
		name: "policy-is-final", description: "each reply 5.x.x to RCPT fails the e-mail at once", scenario: "smtp-policy",
		edits: []edit.Edit{{
			File: publisherFile,
			Old:  "regexp.MustCompile(`^5\\.1\\.(1|3|6|10)(\\s|$)`)", New: "regexp.MustCompile(`^5\\.`)",
		}},
	},
	{
		name: "lost-answer-is-refused", description: "an e-mail whose answer was lost is sent again at once", scenario: "smtp-answers-lost",
		edits: []edit.Edit{{
			File: publisherFile, Old: "	case last == stepDot && !refused:\n", New: "	case last == stepDot && !refused && false:\n",
		}},
	},
	{
		name: "e-mails-swapped", description: "each e-mail has the details of the order before it", scenario: "smtp-not-now",
		edits: []edit.Edit{
			{
				File: effectFile,
				Old:  "	payload, err := json.Marshal(o)\n",
				New: "	own := o\n	o.ProductID, o.Quantity, o.Amount = before.ProductID, before.Quantity, before.Amount\n	before = own\n" +
					"	payload, err := json.Marshal(o)\n",
			},
			{File: effectFile, Old: "// Aggregate is the outbox's name for orders.\n", New: "var before email.Order\n\n// Aggregate is the outbox's name for orders.\n"},
		},
	},
	{
		name: "confirmation-says-cancelled", description: "the e-mail of a confirmation has the headline of a cancellation", scenario: "smtp-not-now",
		edits: []edit.Edit{{
			File: "notification-service/internal/email/templates/order.confirmed.tmpl",
			Old:  "{{define \"headline\"}}Your order is confirmed{{end}}", New: "{{define \"headline\"}}Your order is cancelled{{end}}",
		}},
	},
	{
		name: "one-e-mail-often", description: "the e-mails of one order are sent six times each", scenario: "notifications-sigkill",
		edits: []edit.Edit{
			{
				File: publisherFile,
				Old:  "	last, err = c.transaction(ctx, e)\n",
				New: "	last, err = c.transaction(ctx, e)\n	for i := 0; i < 5 && err == nil && strings.HasPrefix(e.to, \"c000010\"); i++ {\n" +
					"		c.emails++\n		_ = c.sendReset()\n		last, err = c.transaction(ctx, e)\n	}\n",
			},
		},
	},
}
