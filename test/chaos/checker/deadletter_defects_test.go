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
