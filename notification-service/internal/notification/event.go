package notification

import (
	"errors"
	"fmt"
	"math"
	"net/mail"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/rabbitmq"
)

// The events that customers are told of.
const (
	OrderCreated   = "order.created"
	OrderConfirmed = "order.confirmed"
	OrderCancelled = "order.cancelled"
)

// Keys are the events that this service listens to.
var Keys = []string{OrderCreated, OrderConfirmed, OrderCancelled}

// maxVersion is what an int of the database holds.
const maxVersion = math.MaxInt32

// Event is what this service reads of an order event. Fields that it does not know
// are none of its business: order-service may add some.
type Event struct {
	Key           string    `json:"-"` // the message's type
	OrderID       uuid.UUID `json:"order_id"`
	OrderVersion  int       `json:"order_version"`
	CustomerEmail string    `json:"customer_email"` // empty for a guest without one
	ProductID     string    `json:"product_id"`
	Quantity      int       `json:"quantity"`
	Amount        int64     `json:"amount"` // minor units of currency
	Currency      string    `json:"currency"`
	OccurredAt    time.Time `json:"occurred_at,omitzero"` // by order-service's database
}

// Parse reads an event. What comes over the wire is trusted no more than what comes
// from a browser.
func (*Service) Parse(m rabbitmq.Message) (Event, error) {
	e := Event{Key: m.Type}
	if err := json.Unmarshal(m.Body, &e); err != nil {
		return Event{}, fmt.Errorf("the body is not the JSON of an order event: %w", err)
	}
	return e, errors.Join(
		unless(m.Type == OrderCreated || m.Type == OrderConfirmed || m.Type == OrderCancelled, "type %q is unknown", m.Type),
		unless(e.OrderID != uuid.Nil, "order_id is missing"),
		unless(e.OrderVersion > 0 && e.OrderVersion <= maxVersion, "order_version %d is not between 1 and %d", e.OrderVersion, maxVersion),
		unless(e.ProductID != "" && isLine(e.ProductID), "product_id is missing, or has control characters"),
		unless(e.Quantity > 0, "quantity %d is not positive", e.Quantity),
		unless(e.Amount > 0, "amount %d is not positive", e.Amount),
		unless(isCurrency(e.Currency), "currency %q is not of three letters", e.Currency),
		unless(e.CustomerEmail == "" || isAddress(e.CustomerEmail), "customer_email is not an address"),
		unless(isTime(e.OccurredAt), "occurred_at has a year or an offset that the database does not know"),
	)
}

// maxOffset is the largest offset from UTC that PostgreSQL reads: 15:59:59.
const maxOffset = 16 * 60 * 60

// isTime reports whether PostgreSQL can read t. The zero time is no time at all.
func isTime(t time.Time) bool {
	_, offset := t.Zone()
	within := func(year int) bool { return year >= 1 && year <= 9999 }
	return t.IsZero() || within(t.Year()) && within(t.UTC().Year()) && offset > -maxOffset && offset < maxOffset
}

func unless(good bool, format string, args ...any) error {
	if good {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// isAddress is stricter than the standard library's parser, which takes names,
// comments, and some characters that nobody sees.
func isAddress(s string) bool {
	address, err := mail.ParseAddress(s)
	return err == nil && address.Address == s && len(s) <= 254 && isLine(s)
}

func isLine(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || r == unicode.ReplacementChar
	})
}

func isCurrency(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
