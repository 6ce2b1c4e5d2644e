package checker_test

import (
	"time"

	"example.com/transactional-outbox/test/chaos/checker"
)

var orderDefects = []defect{
	{
		name:     "an acknowledged order and its events are missing",
		do:       func(e *checker.Evidence) { *e = withoutOrder(*e, 0) },
		promises: "P1", lost: 2, // the order and its confirmation
	},
	{
		name: "an acknowledged confirmation had no effect",
		do: func(e *checker.Evidence) {
			e.Orders[0].Version = 1
			e.Events, e.Emails, e.Recorded = drop(e.Events, 1), drop(e.Emails, 1), drop(e.Recorded, 1)
			e.Tap, e.Mails = drop(e.Tap, 1), drop(e.Mails, 1)
		},
		promises: "P1", lost: 1,
	},
	{
		name: "an order has no event",
		do: func(e *checker.Evidence) {
			e.Events, e.Emails, e.Recorded = drop(e.Events, 1), drop(e.Emails, 1), drop(e.Recorded, 1)
			e.Tap, e.Mails = drop(e.Tap, 1), drop(e.Mails, 1)
		},
		promises: "P1", lost: 1,
	},
	{
		name: "an event has no order",
		do: func(e *checker.Evidence) {
			e.Orders, e.Attempts = drop(e.Orders, 0), e.Attempts[2:]
		},
		promises: "P1 P6", unexpected: 4, // the events and their e-mails
	},
	{
		name:     "no client requested an order",
		do:       func(e *checker.Evidence) { e.Attempts = e.Attempts[2:] },
		promises: "P1 P6", unexpected: 3, // the order and its e-mails
	},
	{
		name: "one request made two orders",
		do: func(e *checker.Evidence) {
			e.Orders[1].Email = e.Orders[0].Email
			e.Attempts = append(e.Attempts[:2:2], e.Attempts[4:]...)
			e.Attempts[0].OrderID, e.Attempts[1].OrderID = e.Orders[1].ID, e.Orders[1].ID
		},
		promises: "P1 P6", unexpected: 5, // the second order, and the e-mails of both
	},
	{
		name:     "a request that was never sent had an effect",
		do:       func(e *checker.Evidence) { e.Attempts[0].Outcome, e.Attempts[0].MustSucceed = checker.NotSent, false },
		promises: "P1 P6", unexpected: 2, // the order and its e-mail
	},
	{
		name:     "the API refused an order during a fault of the broker only",
		do:       func(e *checker.Evidence) { e.Attempts[0].Outcome = checker.Unknown },
		promises: "P10",
	},
	{
		name: "the API answered 500",
		do: func(e *checker.Evidence) {
			e.Attempts[0].Status, e.Attempts[0].Outcome, e.Attempts[0].MustSucceed = 500, checker.Unknown, false
		},
		promises: "API",
	},
	{
		name:     "a message belongs to no event",
		do:       func(e *checker.Evidence) { e.Tap = append(e.Tap, checker.Message{ID: "ghost"}) },
		promises: "P2", unexpected: 1,
	},
	{
		name:     "an event was published with another body",
		do:       func(e *checker.Evidence) { e.Tap[0].Body = []byte(`{"a":9}`) },
		promises: "P2", unexpected: 1,
	},
	{
		name:     "an event was published with another key",
		do:       func(e *checker.Evidence) { e.Tap[0].Key = "order.cancelled" },
		promises: "P2", unexpected: 1,
	},
	{
		name:     "a process ended with an error",
		do:       func(e *checker.Evidence) { e.Exits[0].Code = 1 },
		promises: "P12",
	},
	{
		name:     "a process took too long to stop",
		do:       func(e *checker.Evidence) { e.Exits[0].Took = 26 * time.Second },
		promises: "P12",
	},
}

var outboxDefects = []defect{
	{
		name: "an event is stuck",
		do: func(e *checker.Evidence) {
			e.Events[5].Status = "in_progress"
			*e = withoutLastEvent(*e)
		},
		promises: "P4", lost: 1,
	},
	{
		name: "an event failed",
		do: func(e *checker.Evidence) {
			e.Events[5].Status = "failed"
			*e = withoutLastEvent(*e)
		},
		promises: "P4", lost: 1,
	},
	{
		name:     "an outage spent an attempt of an event",
		do:       func(e *checker.Evidence) { e.Events[0].RetryCount = 1 },
		promises: "P4",
	},
	{
		name:     "an event was published and later was not",
		do:       func(e *checker.Evidence) { e.Unpublished = 1 },
		promises: "P3",
	},
	{
		name:     "a published event reached no queue",
		do:       func(e *checker.Evidence) { *e = withoutLastEvent(*e) },
		promises: "P3 P5", lost: 1,
	},
	{
		name:     "a published event did not reach another service",
		do:       func(e *checker.Evidence) { e.Tap = e.Tap[:5] },
		promises: "P3", lost: 1,
	},
	{
		name:     "too many copies",
		do:       func(e *checker.Evidence) { e.Tap = append(e.Tap, e.Tap[0], e.Tap[0]) },
		allowed:  checker.Allowance{Duplicates: 1},
		promises: "P5", duplicated: 2,
	},
	{
		name:     "two events out of order",
		do:       func(e *checker.Evidence) { e.Tap[0], e.Tap[1] = e.Tap[1], e.Tap[0] },
		promises: "P7",
	},
	{
		name:     "a gap in the versions",
		do:       func(e *checker.Evidence) { e.Tap = append(e.Tap[1:], e.Tap[0]) },
		promises: "P7",
	},
}

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
		do:       func(e *checker.Evidence) { refuse(e, 3) },
		allowed:  refused,
		promises: "P9", lost: 1,
	},
	{
		name:     "the newest e-mail of an order is failed, although its recipient is accepted again",
		do:       func(e *checker.Evidence) { refuse(e, 5) },
		allowed:  checker.Allowance{Refused: map[string]bool{"2@load.example": false}},
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

// drop returns a slice without one of its elements.
func drop[T any](all []T, i int) []T { return append(all[:i:i], all[i+1:]...) }

// withoutLastEvent removes all effects of the last event.
func withoutLastEvent(e checker.Evidence) checker.Evidence {
	e.Tap, e.Emails, e.Recorded, e.Mails = e.Tap[:5], e.Emails[:5], e.Recorded[:5], e.Mails[:5]
	return e
}

// withoutOrder removes everything about one order except its client's ledger.
func withoutOrder(e checker.Evidence, n int) checker.Evidence {
	e.Orders = drop(e.Orders, n)
	for range 2 {
		e.Events, e.Tap, e.Recorded = drop(e.Events, 2*n), drop(e.Tap, 2*n), drop(e.Recorded, 2*n)
		e.Emails, e.Mails = drop(e.Emails, 2*n), drop(e.Mails, 2*n)
	}
	return e
}
