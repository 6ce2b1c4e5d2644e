package notification

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// The events that customers get an e-mail about.
const (
	OrderCreated   = "order.created"
	OrderConfirmed = "order.confirmed"
	OrderCancelled = "order.cancelled"
)

// EventKeys are the events that this service consumes.
var EventKeys = []string{OrderCreated, OrderConfirmed, OrderCancelled}

// maxVersion is the largest int of the database.
const maxVersion = math.MaxInt32

// Event has the fields that this service needs of an order event. It ignores other fields:
// order-service may add some.
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

// Parse reads and validates an event. It trusts a message no more than an HTTP request.
func (*Service) Parse(m rabbitmq.Message) (Event, error) {
	e := Event{Key: m.Type}
	if err := json.Unmarshal(m.Body, &e); err != nil {
		return Event{}, fmt.Errorf("the body is not the JSON of an order event: %w", err)
	}
	return e, errors.Join(
		unless(m.Type == OrderCreated || m.Type == OrderConfirmed || m.Type == OrderCancelled, "type %q is unknown", m.Type),
		unless(e.OrderID != uuid.Nil, "order_id is missing"),
		unless(e.OrderVersion > 0 && e.OrderVersion <= maxVersion, "order_version %d is not between 1 and %d", e.OrderVersion, maxVersion),
		unless(e.ProductID != "" && mailer.IsSingleLine(e.ProductID), "product_id is missing, or has control characters"),
		unless(e.Quantity > 0, "quantity %d is not positive", e.Quantity),
		unless(e.Amount > 0, "amount %d is not positive", e.Amount),
		unless(isCurrency(e.Currency), "currency %q is not of three letters", e.Currency),
		unless(e.CustomerEmail == "" || mailer.IsAddress(e.CustomerEmail), "customer_email is not an address"),
		unless(isTime(e.OccurredAt), "occurred_at has a year or an offset that the database does not know"),
	)
}

// maxOffset is the largest offset from UTC that PostgreSQL reads: 15:59:59.
const maxOffset = 16 * 60 * 60

// isTime reports whether PostgreSQL can read t. The zero time means that there is none.
func isTime(t time.Time) bool {
	_, offset := t.Zone()
	isYear := func(year int) bool { return year >= 1 && year <= 9999 }
	return t.IsZero() || isYear(t.Year()) && isYear(t.UTC().Year()) && offset > -maxOffset && offset < maxOffset
}

func unless(valid bool, format string, args ...any) error {
	if valid {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func isCurrency(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
