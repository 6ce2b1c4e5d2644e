// Package checker decides whether the system kept its promises.
//
// It uses none of the services' code. Its input is [Evidence]: the rows of both databases, the
// messages of a tap on the exchange and of the broker's queues, and the ledgers of the clients and
// the mail server. [Check] is a pure function, so its own tests can give it evidence of every
// defect.
package checker

import (
	"time"

	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/env/load"
	"example.com/transactional-outbox/test/env/mailserver"
)

// Evidence is everything that is known after the system has finished its work.
type Evidence struct {
	Attempts     []load.Attempt
	Orders       []Order
	Events       []Event           // in the outbox
	Unpublished  int               // events and e-mails that were published and later were not
	Tap          []broker.Message  // every message that passed the exchange, in order
	Recorded     []string          // message ids in the consumer's inbox
	Emails       []Email           // in the consumer's outbox
	Waiting      []broker.Message  // in the service's own queue and its retry queues
	DeadLetters  []broker.Message  // of notification-service
	Mails        []mailserver.Mail // in the order in which the mail server accepted them
	Exits        []Exit
	Times        []Time          // in the databases
	Reclaims     []time.Duration // for each second claim of an event or an e-mail: the age of the first one
	Began, Ended time.Time       // of the scenario
}

// Order is a row of orders.
type Order struct {
	ID, Email string
	Version   int
}

// Event is a row of outbox_status.
type Event struct {
	ID, OrderID string
	Version     int
	Key         string
	Status      string
	RetryCount  int
	Payload     string
}

// Email is an event of the consumer's outbox.
type Email struct {
	ID, OrderID string
	Version     int
	Status      string
}

// Time is a stored time.
type Time struct {
	Where string
	At    time.Time
}

// Exit is the end of a process that was asked to stop.
type Exit struct {
	Name string
	Code int
	Took time.Duration
}
