package checker_test

import "example.com/transactional-outbox/chaos/checker"

var (
	bad     = checker.Message{ID: "bad", Key: "order.created", Body: []byte("{"), Headers: map[string]any{"failure-reason": "no JSON"}}
	planted = checker.Allowance{Planted: map[string]checker.Message{"bad": bad}}
)

var ofDeadLetters = []defect{
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
		name:     "a refused e-mail that nobody excuses",
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
		name: "superseded by what is refused, and no dead letter",
		do: func(e *checker.Evidence) {
			refuse(e, 5)
			e.Notifications[4].Status, e.Mails, e.DeadLetters = "superseded", e.Mails[:4], nil
		},
		allowed: refused, promises: "P6 P9", lost: 2,
	},
	{
		name: "superseded by what says that it is sent, and is not",
		do: func(e *checker.Evidence) {
			e.Notifications[4].Status, e.Mails = "superseded", e.Mails[:4]
		},
		promises: "P6", lost: 2,
	},
	{
		name:    "a bad message is gone",
		do:      func(*checker.Evidence) {},
		allowed: planted, promises: "P9", lost: 1,
	},
	{
		name: "a dead letter has changed",
		do: func(e *checker.Evidence) {
			changed := bad
			changed.Body = []byte("{}")
			e.DeadLetters = append(e.DeadLetters, changed)
		},
		allowed: planted, promises: "P9",
	},
	{
		name: "a dead letter does not say why",
		do: func(e *checker.Evidence) {
			silent := bad
			silent.Headers = nil
			e.DeadLetters = append(e.DeadLetters, silent)
		},
		allowed: planted, promises: "P9",
	},
	{
		name: "a retry came to another service",
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
