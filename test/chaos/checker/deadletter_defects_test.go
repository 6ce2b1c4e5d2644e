package checker_test

import "example.com/transactional-outbox/test/chaos/checker"

var (
	malformedMessage = checker.Message{ID: "bad", Key: "order.created", Body: []byte("{"), Headers: map[string]any{"failure-reason": "no JSON"}}
	malformed        = checker.Allowance{Malformed: map[string]checker.Message{"bad": malformedMessage}}
)

var deadLetterDefects = []defect{
	{
		name:     "a good message is a dead letter",
		do:       func(e *checker.Evidence) { e.DeadLetters = append(e.DeadLetters, e.Tap[0]) },
		promises: "P9",
	},
	{
		name: "a refused e-mail is acknowledged without a copy",
		do: func(e *checker.Evidence) {
			refuse(e, 5)
			e.DeadLetters = nil
		},
		allowed: refused, promises: "P9", lost: 1,
	},
	{
		name:     "a refused e-mail that no fault permits",
		do:       func(e *checker.Evidence) { refuse(e, 3) },
		allowed:  refused,
		promises: "P9",
	},
	{
		name: "the dead letter of a refused e-mail has changed",
		do: func(e *checker.Evidence) {
			refuse(e, 5)
			e.DeadLetters[0].Body = []byte("{}")
		},
		allowed: refused, promises: "P9",
	},
	{
		name: "superseded by a refused e-mail whose message is no dead letter",
		do: func(e *checker.Evidence) {
			refuse(e, 5)
			e.Notifications[4].Status, e.Mails, e.DeadLetters = "superseded", e.Mails[:4], nil
		},
		allowed: refused, promises: "P6 P9", lost: 2,
	},
	{
		name: "superseded by a sent notification without an e-mail",
		do: func(e *checker.Evidence) {
			e.Notifications[4].Status, e.Mails = "superseded", e.Mails[:4]
		},
		promises: "P6", lost: 2,
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
	{
		name:     "another service's dead letter",
		do:       func(e *checker.Evidence) { e.OrderDeadLetters = append(e.OrderDeadLetters, e.Tap[0]) },
		promises: "P8",
	},
}
