package checker_test

import "example.com/transactional-outbox/chaos/checker"

var ofMails = []defect{
	{
		name:     "a missing e-mail",
		do:       func(e *checker.Evidence) { e.Mails = drop(e.Mails, 0) },
		promises: "P6", lost: 1,
	},
	{
		name:     "too many e-mails",
		do:       func(e *checker.Evidence) { e.Mails = append(e.Mails, e.Mails[0], e.Mails[0]) },
		allowed:  checker.Allowance{Mails: 1},
		promises: "P6",
	},
	{
		name: "a second e-mail with another id",
		do: func(e *checker.Evidence) {
			again := e.Mails[0]
			again.MessageID = "<another@example.com>"
			e.Mails = append(e.Mails, again)
		},
		promises: "P6", unexpected: 2, // it is a repeat that nobody can tell, and of no notification
	},
	{
		name:     "an e-mail to somebody else",
		do:       func(e *checker.Evidence) { e.Mails[0].To = "eve@load.example" },
		promises: "P6", unexpected: 1,
	},
	{
		name: "an e-mail of nothing",
		do: func(e *checker.Evidence) {
			e.Mails = append(e.Mails, checker.Mail{MessageID: "<x@y>", To: "z", Subject: "?"})
		},
		promises: "P6", unexpected: 1,
	},
}

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
