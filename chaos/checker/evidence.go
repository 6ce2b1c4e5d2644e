// Package checker decides whether the system kept its promises.
//
// It knows nothing of the services' code: what it judges is [Evidence], read from the
// databases, from a tap on the exchange, from the broker's queues, and from the ledgers
// of the clients and of the mail server. [Judge] is a pure function, so that its own
// tests can show it evidence of every defect.
package checker

import "time"

// Evidence is all that is known once the system is quiet.
type Evidence struct {
	Attempts         []Attempt
	Orders           []Order
	Events           []Event   // of the outbox
	Regrets          int       // events that were published, and then were not
	Tap              []Message // everything that went through the exchange, in order
	Notifications    []Notification
	Processed        []string  // the ids in processed_messages
	Waiting          []Message // in the service's own queue and its retry queues
	DeadLetters      []Message // of notification-service
	OrderDeadLetters []Message // of order-service
	Mails            []Mail    // in the order in which the server took them
	Exits            []Exit
	Times            []Time          // that the databases hold
	Reclaims         []time.Duration // how long an event had been held when somebody else claimed it
	Began, Ended     time.Time       // of all this
}

// Outcome is what a client was told.
type Outcome int

const (
	// Unknown means: an error, a timeout, no answer. The order may exist or not.
	Unknown Outcome = iota
	// Acknowledged means: 201 or 200.
	Acknowledged
	// NotSent means: no connection, so nothing can have happened.
	NotSent
)

// Attempt is one request of a client.
type Attempt struct {
	Email    string // which no other order has
	Kind     Kind
	Product  string // that the client asked for
	Quantity int
	OrderID  string // if the client knows it
	Amount   int64  // that the client was told, in minor units; 0 if it was not
	Currency string
	Outcome  Outcome
	Status   int    // of the answer, if there was one
	Reason   string // why it is not acknowledged
	// Accused says that no fault but the broker's was about, so that the API should have
	// answered.
	Accused bool
}

// Kind is what a request asks for: the event key that it causes.
type Kind string

// The three kinds.
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

// Message is what a queue holds.
type Message struct {
	ID, Key string
	Body    []byte
	Headers map[string]any
	At      time.Time // its property timestamp
	Queue   string    // where it was found
}

// Notification is a row of notifications.
type Notification struct {
	ID, OrderID string
	Version     int
	Recipient   string
	Status      string
}

// Mail is what the mail server took.
type Mail struct {
	MessageID, To, Subject string
	Bodies                 []string // the text, and the same as HTML
	Date                   time.Time
	Cut                    bool // the server broke the connection instead of saying that it took it
}

// Time is one that is written somewhere.
type Time struct {
	Where string
	At    time.Time
}

// Exit is how a process ended that was asked to.
type Exit struct {
	Name string
	Code int
	Took time.Duration
}

// Allowance is what the faults that were injected excuse. The zero value excuses
// nothing.
type Allowance struct {
	Duplicates int // copies on the tap beyond the first of each event
	// Mails are e-mails beyond the first of each event, beside those that the server cut.
	// MailsEach is how often one event's e-mail may be among them: a process that dies
	// repeats several e-mails, and each of them once.
	Mails, MailsEach int
	Spent            bool // the broker refused events, so attempts were spent
	// SpentOnce is how many events may have spent one attempt: a queue was deleted while the
	// broker put them into it. The broker refuses such an event, which is true of that moment.
	SpentOnce int
	// TapGap says that the tap was not bound all the time: what arrived elsewhere has
	// been published as well.
	TapGap bool
	// Refused are the recipients that the mail server refuses to the end: their messages
	// are dead letters.
	Refused map[string]bool
	// Lease is how long the relays' leases last.
	Lease time.Duration
	// Planted are bad messages of the scenario itself, by id: they end as dead letters.
	Planted map[string]Message
}
