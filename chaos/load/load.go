// Package load places orders, and keeps a ledger of what it was told.
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

	"example.com/transactional-outbox/chaos/checker"
)

// patience is longer than the API's own limit for a request.
const patience = 12 * time.Second

// Load is a number of clients.
type Load struct {
	targets func() []string // URLs of the replicas that live
	pause   time.Duration   // of one client between its orders
	http    *http.Client
	accuse  atomic.Bool
	numbers atomic.Int64

	mu     sync.Mutex
	ledger []checker.Attempt
}

// New returns a load that does nothing yet. All clients together place so many orders
// per second, if they are answered.
func New(targets func() []string, clients, perSecond int) *Load {
	return &Load{
		targets: targets, pause: time.Second * time.Duration(clients) / time.Duration(perSecond),
		http: &http.Client{Timeout: patience},
	}
}

// Accuse decides whether a request that begins now should be answered, whatever is
// about.
func (l *Load) Accuse(accuse bool) { l.accuse.Store(accuse) }

// Ledger returns all attempts so far.
func (l *Load) Ledger() []checker.Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]checker.Attempt(nil), l.ledger...)
}

// Acknowledged counts the orders that were taken.
func (l *Load) Acknowledged() (n int) {
	for _, a := range l.Ledger() {
		if a.Kind == checker.Place && a.Outcome == checker.Acknowledged {
			n++
		}
	}
	return n
}

// Run places orders until ctx ends; requests that are out then are finished.
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

// A client that does not know what became of its request repeats it, so often.
const (
	repeats             = 3
	pauseBetweenRepeats = 200 * time.Millisecond
)

// products are those of the catalogue.
var products = []string{"sku123", "sku124", "sku125"}

// wish is what the client of order n asks for. Neighbours want different things, so that
// one's e-mail is not right for the other.
func wish(n int64) checker.Attempt {
	return checker.Attempt{
		Email: fmt.Sprintf("c%06d@load.example", n), Kind: checker.Place,
		Product: products[n%int64(len(products))], Quantity: 1 + int(n%47),
	}
}

// Order places one order, and settles two of three at once: so an order's next event
// often meets its first one on the way.
func (l *Load) Order(ctx context.Context) {
	n := l.numbers.Add(1)
	a := wish(n)
	// With its key, a request may be repeated until the answer is known.
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
	settle, path := checker.Confirm, "/confirm"
	if n%3 == 1 {
		settle, path = checker.Cancel, "/cancel"
	}
	a.Kind, a.Outcome, a.Status, a.Reason = settle, checker.Unknown, 0, ""
	l.attempt(ctx, &a, "/orders/"+a.OrderID+path, "")
}

func (l *Load) attempt(ctx context.Context, a *checker.Attempt, path, body string) {
	a.Accused = l.accuse.Load()
	err := l.post(ctx, a, path, body)
	if err != nil {
		a.Reason = err.Error()
	}
	// What was accused and ended after its time is nobody's fault any more.
	a.Accused = a.Accused && l.accuse.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ledger = append(l.ledger, *a)
}

var errNobody = errors.New("no replica is up")

func (l *Load) post(ctx context.Context, a *checker.Attempt, path, body string) error {
	targets := l.targets()
	if len(targets) == 0 {
		a.Outcome = checker.NotSent
		return errNobody
	}
	target := targets[int(l.numbers.Load())%len(targets)]
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
	return read(response, a)
}

func read(response *http.Response, a *checker.Attempt) error {
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
