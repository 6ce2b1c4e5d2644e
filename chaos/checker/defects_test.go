package checker_test

import (
	"time"

	"example.com/transactional-outbox/chaos/checker"
)

var ofOrders = []defect{
	{
		name:     "an acknowledged order is gone, and its events with it",
		do:       func(e *checker.Evidence) { *e = without(*e, 0) },
		promises: "P1", lost: 2, // the order, and its confirmation
	},
	{
		name: "an acknowledged confirmation had no effect",
		do: func(e *checker.Evidence) {
			e.Orders[0].Version = 1
			e.Events, e.Notifications, e.Processed = drop(e.Events, 1), drop(e.Notifications, 1), drop(e.Processed, 1)
			e.Tap, e.Mails = drop(e.Tap, 1), drop(e.Mails, 1)
		},
		promises: "P1", lost: 1,
	},
	{
		name: "an order has no event",
		do: func(e *checker.Evidence) {
			e.Events, e.Notifications, e.Processed = drop(e.Events, 1), drop(e.Notifications, 1), drop(e.Processed, 1)
			e.Tap, e.Mails = drop(e.Tap, 1), drop(e.Mails, 1)
		},
		promises: "P1", lost: 1,
	},
	{
		name: "an event has no order",
		do: func(e *checker.Evidence) {
			e.Orders, e.Attempts = drop(e.Orders, 0), e.Attempts[2:]
		},
		promises: "P1 P6", unexpected: 4, // its events, and their e-mails
	},
	{
		name:     "nobody asked for an order",
		do:       func(e *checker.Evidence) { e.Attempts = e.Attempts[2:] },
		promises: "P1 P6", unexpected: 3, // the order, and its e-mails
	},
	{
		name: "one request made two orders",
		do: func(e *checker.Evidence) {
			e.Orders[1].Email = e.Orders[0].Email
			e.Attempts = append(e.Attempts[:2:2], e.Attempts[4:]...)
			e.Attempts[0].OrderID, e.Attempts[1].OrderID = e.Orders[1].ID, e.Orders[1].ID
		},
		promises: "P1 P6", unexpected: 5, // the second order, and all e-mails: none is of the order that was told
	},
	{
		name:     "what was never sent has happened",
		do:       func(e *checker.Evidence) { e.Attempts[0].Outcome, e.Attempts[0].Accused = checker.NotSent, false },
		promises: "P1 P6", unexpected: 2, // the order, and its e-mail
	},
	{
		name:     "the API did not take an order, with only the broker in trouble",
		do:       func(e *checker.Evidence) { e.Attempts[0].Outcome = checker.Unknown },
		promises: "P10",
	},
	{
		name: "the API blamed itself",
		do: func(e *checker.Evidence) {
			e.Attempts[0].Status, e.Attempts[0].Outcome, e.Attempts[0].Accused = 500, checker.Unknown, false
		},
		promises: "API",
	},
	{
		name:     "a message is of no event",
		do:       func(e *checker.Evidence) { e.Tap = append(e.Tap, checker.Message{ID: "ghost"}) },
		promises: "P2", unexpected: 1,
	},
	{
		name:     "an event went out with other words",
		do:       func(e *checker.Evidence) { e.Tap[0].Body = []byte(`{"a":9}`) },
		promises: "P2", unexpected: 1,
	},
	{
		name:     "an event went out under another key",
		do:       func(e *checker.Evidence) { e.Tap[0].Key = "order.cancelled" },
		promises: "P2", unexpected: 1,
	},
	{
		name:     "a process did not end well",
		do:       func(e *checker.Evidence) { e.Exits[0].Code = 1 },
		promises: "P12",
	},
	{
		name:     "a process took too long to end",
		do:       func(e *checker.Evidence) { e.Exits[0].Took = 26 * time.Second },
		promises: "P12",
	},
}

var ofTheOutbox = []defect{
	{
		name: "an event is stuck",
		do: func(e *checker.Evidence) {
			e.Events[5].Status = "in_progress"
			*e = unpublished(*e)
		},
		promises: "P4", lost: 1,
	},
	{
		name: "an event failed",
		do: func(e *checker.Evidence) {
			e.Events[5].Status = "failed"
			*e = unpublished(*e)
		},
		promises: "P4", lost: 1,
	},
	{
		name:     "an outage was blamed on an event",
		do:       func(e *checker.Evidence) { e.Events[0].RetryCount = 1 },
		promises: "P4",
	},
	{
		name:     "an event was published, and then was not",
		do:       func(e *checker.Evidence) { e.Regrets = 1 },
		promises: "P3",
	},
	{
		name:     "a published event was in no queue",
		do:       func(e *checker.Evidence) { *e = unpublished(*e) },
		promises: "P3 P5", lost: 1,
	},
	{
		name:     "a published event did not come to another service",
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
		name:     "out of order",
		do:       func(e *checker.Evidence) { e.Tap[0], e.Tap[1] = e.Tap[1], e.Tap[0] },
		promises: "P7",
	},
	{
		name:     "a gap",
		do:       func(e *checker.Evidence) { e.Tap = append(e.Tap[1:], e.Tap[0]) },
		promises: "P7",
	},
}

var ofEffects = []defect{
	{
		name: "a message is gone on its way to the service",
		do: func(e *checker.Evidence) {
			e.Notifications, e.Processed, e.Mails = drop(e.Notifications, 0), drop(e.Processed, 0), drop(e.Mails, 0)
		},
		promises: "P5", lost: 1,
	},
	{
		name:     "a message is processed and had no effect",
		do:       func(e *checker.Evidence) { e.Notifications, e.Mails = drop(e.Notifications, 0), drop(e.Mails, 0) },
		promises: "P5", lost: 1,
	},
	{
		name:     "an effect is of no processed message",
		do:       func(e *checker.Evidence) { e.Processed = drop(e.Processed, 0) },
		promises: "P5", unexpected: 1,
	},
	{
		name:     "two effects",
		do:       func(e *checker.Evidence) { e.Notifications = append(e.Notifications, e.Notifications[0]) },
		promises: "P5",
	},
	{
		name:     "a notification is stuck",
		do:       func(e *checker.Evidence) { e.Notifications[0].Status, e.Mails = "sending", drop(e.Mails, 0) },
		promises: "P6", lost: 1,
	},
	{
		name:     "superseded by nothing",
		do:       func(e *checker.Evidence) { e.Notifications[1].Status, e.Mails = "superseded", drop(e.Mails, 1) },
		promises: "P6", lost: 1,
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
			e.Notifications, e.Processed, e.Mails = e.Notifications[:5], e.Processed[:5], e.Mails[:5]
			left := e.Tap[5]
			left.Queue = "notification-service"
			e.Waiting = append(e.Waiting, left)
		},
		promises: "P5",
	},
	{
		name:     "a notification is of no event",
		do:       func(e *checker.Evidence) { e.Notifications[0].Version = 7 },
		promises: "P2", unexpected: 1,
	},
}

// drop returns a slice without one of its elements.
func drop[T any](all []T, i int) []T { return append(all[:i:i], all[i+1:]...) }

// unpublished is without all that the last event has caused.
func unpublished(e checker.Evidence) checker.Evidence {
	e.Tap, e.Notifications, e.Processed, e.Mails = e.Tap[:5], e.Notifications[:5], e.Processed[:5], e.Mails[:5]
	return e
}

// without is without all of one order but what its client was told.
func without(e checker.Evidence, n int) checker.Evidence {
	e.Orders = drop(e.Orders, n)
	for range 2 {
		e.Events, e.Tap, e.Processed = drop(e.Events, 2*n), drop(e.Tap, 2*n), drop(e.Processed, 2*n)
		e.Notifications, e.Mails = drop(e.Notifications, 2*n), drop(e.Mails, 2*n)
	}
	return e
}
