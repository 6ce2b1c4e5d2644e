// Package load places orders, and keeps a ledger of the answers.
package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// requestTimeout is longer than the API's own limit for a request.
const requestTimeout = 12 * time.Second

// Load is a group of clients.
type Load struct {
	// Patience is how long a client repeats a request that nobody answers.
	Patience time.Duration

	targets func() []string // URLs of the running replicas
	pause   time.Duration   // between two orders of one client
	http    *http.Client
	givenUp atomic.Bool
	orders  atomic.Int64 // placed so far
	sent    atomic.Int64 // requests so far

	mu       sync.Mutex
	ledger   []Attempt
	answered map[string]time.Time // the last acknowledgement, by target
}

// New returns a load that has not started. All clients together place perSecond orders per second
// if the API answers.
func New(targets func() []string, clients, perSecond int) *Load {
	return &Load{
		Patience: time.Second, targets: targets, pause: time.Second * time.Duration(clients) / time.Duration(perSecond),
		http: &http.Client{Timeout: requestTimeout}, answered: map[string]time.Time{},
	}
}

// GiveUp ends all repeats: the services will not come back.
func (l *Load) GiveUp() { l.givenUp.Store(true) }

// Ledger returns all attempts so far.
func (l *Load) Ledger() []Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Attempt(nil), l.ledger...)
}

// Acknowledged counts the acknowledged orders.
func (l *Load) Acknowledged() (n int) {
	for _, a := range l.Ledger() {
		if a.Kind == Place && a.Outcome == Acknowledged {
			n++
		}
	}
	return n
}

// Answered returns when this replica has last acknowledged a request.
func (l *Load) Answered(target string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered[target]
}

// Run places orders until ctx ends, and finishes the requests in flight.
func (l *Load) Run(ctx context.Context, clients int) {
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for ctx.Err() == nil {
				l.Order(context.WithoutCancel(ctx))
				select {
				case <-ctx.Done():
				case <-time.After(l.pause):
				}
			}
		})
	}
	running.Wait()
	l.http.CloseIdleConnections()
}

const pauseBetweenRepeats = 200 * time.Millisecond

// Domains is how many domains the customers have.
const Domains = 8

// Domain returns the name of one of them.
func Domain(n int) string { return fmt.Sprintf("d%d.example", n) }

// Number returns the number of the order in its customer's address, or 0 for another address.
func Number(email string) (n int) {
	_, _ = fmt.Sscanf(email, "c%d@", &n)
	return n
}

// products are in the catalogue.
var products = []string{"sku123", "sku124", "sku125"}

// Email returns the address of the customer of order n.
func Email(n int) string { return fmt.Sprintf("c%06d@%s", n, Domain(n%Domains)) }

// newAttempt returns the request of order n. Neighbours order different things, so the e-mail of
// one is wrong for the other.
func newAttempt(n int64) Attempt {
	return Attempt{
		Email: Email(int(n)), Kind: Place,
		Product: products[n%int64(len(products))], Quantity: 1 + int(n%47),
	}
}

// Order places one order, and confirms or cancels two of three at once. So an order's second event
// is often stored before the first one is published.
func (l *Load) Order(ctx context.Context) {
	n := l.orders.Add(1)
	a := newAttempt(n)
	l.request(ctx, &a, "/orders", fmt.Sprintf(`{"product_id":%q,"quantity":%d,"customer_email":%q}`, a.Product, a.Quantity, a.Email))
	if a.Outcome != Acknowledged || n%3 == 0 {
		return
	}
	kind, path := Confirm, "/confirm"
	if n%3 == 1 {
		kind, path = Cancel, "/cancel"
	}
	a.Kind = kind
	l.request(ctx, &a, "/orders/"+a.OrderID+path, "")
}

// request sends a request until it is answered. Repeats are safe: they have the same
// Idempotency-Key, or they change the status of one order.
func (l *Load) request(ctx context.Context, a *Attempt, path, body string) {
	mayHaveHappened := false
	for deadline := time.Now().Add(l.Patience); ; time.Sleep(pauseBetweenRepeats) {
		a.Outcome, a.Status, a.Reason = Unknown, 0, ""
		if err := l.post(ctx, a, path, body); err != nil {
			a.Reason = err.Error()
		}
		if a.Kind != Place && mayHaveHappened && a.Status == http.StatusConflict {
			a.Outcome, a.Reason = Acknowledged, "" // an attempt before it has changed the status
		}
		mayHaveHappened = mayHaveHappened || a.Outcome == Unknown
		l.mu.Lock()
		l.ledger = append(l.ledger, *a)
		l.mu.Unlock()
		if a.Outcome == Acknowledged || a.Status/100 == 4 || time.Now().After(deadline) || l.givenUp.Load() {
			return
		}
	}
}

var errNoReplica = errors.New("no replica is running")

func (l *Load) post(ctx context.Context, a *Attempt, path, body string) error {
	targets := l.targets()
	if len(targets) == 0 {
		a.Outcome = NotSent
		return errNoReplica
	}
	target := targets[int(l.sent.Add(1))%len(targets)] // a repeat goes to another replica
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if a.Kind == Place {
		request.Header.Set("Idempotency-Key", a.Email)
	}
	response, err := l.http.Do(request)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			a.Outcome = NotSent
		}
		return err
	}
	defer func() { _ = response.Body.Close() }()
	err = readAnswer(response, a)
	if a.Outcome == Acknowledged {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.answered[target] = time.Now()
	}
	return err
}

func readAnswer(response *http.Response, a *Attempt) error {
	a.Status = response.StatusCode
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", response.Status, content)
	}
	var answer struct {
		Order struct {
			ID, Currency string
			Amount       int64
		}
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		return err
	}
	a.Outcome, a.OrderID = Acknowledged, answer.Order.ID
	a.Amount, a.Currency = answer.Order.Amount, answer.Order.Currency
	return nil
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
