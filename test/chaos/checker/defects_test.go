package checker_test

import (
	"slices"
	"time"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/env/load"
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
		do:       func(e *checker.Evidence) { e.Attempts[0].Outcome = load.NotSent },
		promises: "P1 P10 P6", unexpected: 2, // the order and its e-mail
	},
	{
		name:     "the API never answered a request",
		do:       func(e *checker.Evidence) { e.Attempts[0].Outcome = load.Unknown },
		promises: "P10",
	},
	{
		name: "the API answered 500",
		do: func(e *checker.Evidence) {
			before := e.Attempts[0]
			before.Status, before.Outcome = 500, load.Unknown
			e.Attempts = slices.Insert(e.Attempts, 0, before)
		},
		promises: "API",
	},
	{
		name:     "a message belongs to no event",
		do:       func(e *checker.Evidence) { e.Tap = append(e.Tap, broker.Message{ID: "ghost"}) },
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
		do:       func(e *checker.Evidence) { e.Exits[0].Took = 61 * time.Second },
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

// anHourOff are times of a clock that is an hour wrong.
var anHourOff = map[string]time.Time{"behind": ended.Add(-time.Hour), "ahead": began.Add(time.Hour)}

var clockDefects = append(wrongTimes(), defect{
	name:     "an event was claimed during another relay's lease",
	do:       func(e *checker.Evidence) { e.Reclaims = append(e.Reclaims, lease-time.Millisecond) },
	allowed:  checker.Allowance{Lease: lease},
	promises: "P11",
}, defect{
	name: "failed-at is not a time",
	do: func(e *checker.Evidence) {
		e.Tap[0].Headers = map[string]any{"failed-at": "yesterday"}
	},
	promises: "P9",
})

func wrongTimes() (all []defect) {
	for how, at := range anHourOff {
		for where, write := range map[string]func(*checker.Evidence){
			"a column":    func(e *checker.Evidence) { e.Times[1].At = at },
			"a timestamp": func(e *checker.Evidence) { e.Tap[2].At = at },
			"a date":      func(e *checker.Evidence) { e.Mails[3].Date = at },
			"failed-at":   func(e *checker.Evidence) { e.Tap[0].Headers = map[string]any{"failed-at": at.Format(time.RFC3339)} },
		} {
			all = append(all, defect{name: where + " is from a clock that is " + how, do: write, promises: "P11"})
		}
	}
	return all
}
