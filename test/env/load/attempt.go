package load

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
