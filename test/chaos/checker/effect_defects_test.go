package checker_test

import (
	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/env/broker"
)

var effectDefects = []defect{
	{
		name: "a message was lost before the service",
		do: func(e *checker.Evidence) {
			e.Emails, e.Recorded, e.Mails = drop(e.Emails, 0), drop(e.Recorded, 0), drop(e.Mails, 0)
		},
		promises: "P5", lost: 1,
	},
	{
		name:     "a message is recorded and has no e-mail",
		do:       func(e *checker.Evidence) { e.Emails, e.Mails = drop(e.Emails, 1), drop(e.Mails, 1) },
		promises: "P5", lost: 1,
	},
	{
		name:     "an e-mail belongs to no recorded message",
		do:       func(e *checker.Evidence) { e.Recorded = drop(e.Recorded, 0) },
		promises: "P5", lost: 1, unexpected: 1, // the message itself is lost
	},
	{
		name:     "a message has two effects",
		do:       func(e *checker.Evidence) { e.Emails = append(e.Emails, e.Emails[0]) },
		promises: "P5",
	},
	{
		name:     "an e-mail waits",
		do:       func(e *checker.Evidence) { e.Emails[0].Status, e.Mails = "pending", drop(e.Mails, 0) },
		promises: "P6", lost: 1,
	},
	{
		name:     "an e-mail is failed",
		do:       func(e *checker.Evidence) { e.Emails[3].Status, e.Mails = "failed", drop(e.Mails, 3) },
		promises: "P9", lost: 1,
	},
	{
		name:     "an operator has discarded an e-mail",
		do:       func(e *checker.Evidence) { e.Emails[0].Status, e.Mails = "discarded", drop(e.Mails, 0) },
		promises: "P6", lost: 1,
	},
	{
		name:     "superseded without a newer event",
		do:       func(e *checker.Evidence) { e.Emails[1].Status, e.Mails = "superseded", drop(e.Mails, 1) },
		promises: "P6", lost: 1,
	},
	{
		name: "superseded by an e-mail that the mail server does not have",
		do: func(e *checker.Evidence) {
			e.Emails[4].Status, e.Mails = "superseded", e.Mails[:4]
		},
		promises: "P6", lost: 2,
	},
	{
		name: "a message is left in a retry queue",
		do: func(e *checker.Evidence) {
			again := e.Tap[0]
			again.Queue = "notification-service.retry.5m"
			e.Waiting = append(e.Waiting, again)
		},
		promises: "P5",
	},
	{
		name: "a message without an effect is left in the service's queue",
		do: func(e *checker.Evidence) {
			e.Emails, e.Recorded, e.Mails = e.Emails[:5], e.Recorded[:5], e.Mails[:5]
			left := e.Tap[5]
			left.Queue = "notification-service"
			e.Waiting = append(e.Waiting, left)
		},
		promises: "P5",
	},
	{
		name:     "an e-mail belongs to no event",
		do:       func(e *checker.Evidence) { e.Emails[0].Version = 7 },
		promises: "P2", unexpected: 1,
	},
}

var (
	malformedMessage = broker.Message{ID: "bad", Key: "order.created", Body: []byte("{"), Headers: map[string]any{"failure-reason": "no JSON"}}
	malformed        = checker.Allowance{Malformed: map[string]broker.Message{"bad": malformedMessage}}
)

var deadLetterDefects = []defect{
	{
		name:     "a good message is a dead letter",
		do:       func(e *checker.Evidence) { e.DeadLetters = append(e.DeadLetters, e.Tap[0]) },
		promises: "P9",
	},
	{
		name:    "a malformed message is missing",
		do:      func(*checker.Evidence) {},
		allowed: malformed, promises: "P9", lost: 1,
	},
	{
		name: "a dead letter has changed",
		do: func(e *checker.Evidence) {
			changed := malformedMessage
			changed.Body = []byte("{}")
			e.DeadLetters = append(e.DeadLetters, changed)
		},
		allowed: malformed, promises: "P9",
	},
	{
		name: "a dead letter has no reason",
		do: func(e *checker.Evidence) {
			silent := malformedMessage
			silent.Headers = nil
			e.DeadLetters = append(e.DeadLetters, silent)
		},
		allowed: malformed, promises: "P9",
	},
	{
		name: "a retry reached another service",
		do: func(e *checker.Evidence) {
			again := e.Tap[0]
			again.Headers = map[string]any{"retry-count": int64(1)}
			e.Tap = append(e.Tap, again)
		},
		allowed: checker.Allowance{Duplicates: 1}, promises: "P8", duplicated: 1,
	},
}
