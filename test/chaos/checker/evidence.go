// Package checker decides whether the system kept its promises.
//
// It uses none of the services' code. Its input is [Evidence]: the rows of both databases, the
// messages of a tap on the exchange and of the broker's queues, and the ledgers of the clients and
// the mail server. [Check] is a pure function, so its own tests can give it evidence of every
// defect.
package checker

import "time"

// Evidence is everything that is known after the system has finished its work.
type Evidence struct {
	Attempts     []Attempt
	Orders       []Order
	Events       []Event   // in the outbox
	Unpublished  int       // events and e-mails that were published and later were not
	Tap          []Message // every message that passed the exchange, in order
	Recorded     []string  // message ids in the consumer's inbox
	Emails       []Email   // in the consumer's outbox
	Waiting      []Message // in the service's own queue and its retry queues
	DeadLetters  []Message // of notification-service
	Mails        []Mail    // in the order in which the mail server accepted them
	Exits        []Exit
	Times        []Time          // in the databases
	Reclaims     []time.Duration // for each second claim of an event or an e-mail: the age of the first one
	Began, Ended time.Time       // of the scenario
}

// Outcome is what a client knows about its request.
type Outcome int

const (
	// Unknown is an error, a timeout or no answer. The order may exist or not.
	Unknown Outcome = iota
	// Acknowledged is a 201 or a 200.
	Acknowledged
	// NotSent means that there was no connection: the request had no effect.
	NotSent
)

// Attempt is one request of a client.
type Attempt struct {
	Email    string // unique to the order
	Kind     Kind
	Product  string
	Quantity int
	OrderID  string // empty if the client does not know it
	Amount   int64  // from the answer, in minor units; 0 without an answer
	Currency string
	Outcome  Outcome
	Status   int    // of the answer; 0 without an answer
	Reason   string // why it was not acknowledged
}

// Kind is the event key that a request causes.
type Kind string

// The kinds of requests.
const (
	Place   Kind = "order.created"
	Confirm Kind = "order.confirmed"
	Cancel  Kind = "order.cancelled"
)

// Order is a row of orders.
type Order struct {
	ID, Email string
	Version   int
}

// Event is a row of outbox_events.
type Event struct {
	ID, OrderID string
	Version     int
	Key         string
	Status      string
	RetryCount  int
	Payload     string
}

// Message is a message from a queue.
type Message struct {
	ID, Key string
	Body    []byte
	Headers map[string]any
	At      time.Time // the timestamp property
	Queue   string    // the queue that it was read from
}

// Email is an event of the consumer's outbox.
type Email struct {
	ID, OrderID string
	Version     int
	Status      string
}

// Mail is an e-mail that the mail server accepted.
type Mail struct {
	MessageID, To, Subject string
	Bodies                 []string // plain text and HTML
	Date                   time.Time
	At                     time.Time // when it was accepted
	Cut                    bool      // the server closed the connection instead of answering
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
