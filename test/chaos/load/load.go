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

	"example.com/transactional-outbox/test/chaos/checker"
)

// requestTimeout is longer than the API's own limit for a request.
const requestTimeout = 12 * time.Second

// Load is a group of clients.
type Load struct {
	targets     func() []string // URLs of the running replicas
	pause       time.Duration   // between two orders of one client
	http        *http.Client
	mustSucceed atomic.Bool
	orders      atomic.Int64 // placed so far

	mu       sync.Mutex
	ledger   []checker.Attempt
	answered map[string]time.Time // the last acknowledgement, by target
}

// New returns a load that has not started. All clients together place perSecond orders per second
// if the API answers.
func New(targets func() []string, clients, perSecond int) *Load {
	return &Load{
		targets: targets, pause: time.Second * time.Duration(clients) / time.Duration(perSecond),
		http: &http.Client{Timeout: requestTimeout}, answered: map[string]time.Time{},
	}
}

// SetMustSucceed says whether the API must answer the requests that start from now on.
func (l *Load) SetMustSucceed(must bool) { l.mustSucceed.Store(must) }

// Ledger returns all attempts so far.
func (l *Load) Ledger() []checker.Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]checker.Attempt(nil), l.ledger...)
}

// Acknowledged counts the acknowledged orders.
func (l *Load) Acknowledged() (n int) {
	for _, a := range l.Ledger() {
		if a.Kind == checker.Place && a.Outcome == checker.Acknowledged {
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

// A client repeats a request until it knows the outcome, at most this often.
const (
	repeats             = 3
	pauseBetweenRepeats = 200 * time.Millisecond
)

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
func newAttempt(n int64) checker.Attempt {
	return checker.Attempt{
		Email: Email(int(n)), Kind: checker.Place,
		Product: products[n%int64(len(products))], Quantity: 1 + int(n%47),
	}
}

// Order places one order, and confirms or cancels two of three at once.
func (l *Load) Order(ctx context.Context) {
	n := l.orders.Add(1)
	l.order(ctx, n, newAttempt(n))
}

// OrderFrom places one order of a customer at another domain.
func (l *Load) OrderFrom(ctx context.Context, domain string) {
	n := l.orders.Add(1)
	a := newAttempt(n)
	a.Email = fmt.Sprintf("x%06d@%s", n, domain)
	l.order(ctx, n, a)
}

// order confirms or cancels two of three orders at once. So an order's second event is often stored
// before the first one is published.
func (l *Load) order(ctx context.Context, n int64, a checker.Attempt) {
	// Repeats are safe: they have the same Idempotency-Key.
	for range repeats {
		if a.Outcome == checker.Acknowledged {
			break
		}
		a.Outcome, a.Status, a.Reason = checker.Unknown, 0, ""
		l.attempt(ctx, &a, "/orders", fmt.Sprintf(`{"product_id":%q,"quantity":%d,"customer_email":%q}`, a.Product, a.Quantity, a.Email))
		if a.Outcome != checker.Acknowledged {
			time.Sleep(pauseBetweenRepeats)
		}
	}
	if a.Outcome != checker.Acknowledged || n%3 == 0 {
		return
	}
	kind, path := checker.Confirm, "/confirm"
	if n%3 == 1 {
		kind, path = checker.Cancel, "/cancel"
	}
	a.Kind, a.Outcome, a.Status, a.Reason = kind, checker.Unknown, 0, ""
	l.attempt(ctx, &a, "/orders/"+a.OrderID+path, "")
}

func (l *Load) attempt(ctx context.Context, a *checker.Attempt, path, body string) {
	a.MustSucceed = l.mustSucceed.Load()
	err := l.post(ctx, a, path, body)
	if err != nil {
		a.Reason = err.Error()
	}
	// A fault may have started during the request.
	a.MustSucceed = a.MustSucceed && l.mustSucceed.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ledger = append(l.ledger, *a)
}

var errNoReplica = errors.New("no replica is running")

func (l *Load) post(ctx context.Context, a *checker.Attempt, path, body string) error {
	targets := l.targets()
	if len(targets) == 0 {
		a.Outcome = checker.NotSent
		return errNoReplica
	}
	target := targets[int(l.orders.Load())%len(targets)]
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if a.Kind == checker.Place {
		request.Header.Set("Idempotency-Key", a.Email)
	}
	response, err := l.http.Do(request)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			a.Outcome = checker.NotSent
		}
		return err
	}
	defer func() { _ = response.Body.Close() }()
	err = readAnswer(response, a)
	if a.Outcome == checker.Acknowledged {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.answered[target] = time.Now()
	}
	return err
}

func readAnswer(response *http.Response, a *checker.Attempt) error {
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
	a.Outcome, a.OrderID = checker.Acknowledged, answer.Order.ID
	a.Amount, a.Currency = answer.Order.Amount, answer.Order.Currency
	return nil
}
