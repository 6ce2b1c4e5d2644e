package email

import (
	"errors"
	"fmt"
	"math"
	"slices"
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

// Topics are the events that this service consumes.
var Topics = []string{OrderCreated, OrderConfirmed, OrderCancelled}

// Order has the fields that this service needs of an order event. It ignores other fields:
// order-service may add some. Its JSON is also the payload of an e-mail in the outbox. So each
// version of this service must read what the one before it has written.
type Order struct {
	MessageID     uuid.UUID `json:"-"`
	Type          string    `json:"event_type"` // the message's type
	OrderID       uuid.UUID `json:"order_id"`
	OrderVersion  int       `json:"order_version"`
	CustomerEmail string    `json:"customer_email"` // may be empty in an event; in the outbox, the default recipient
	ProductID     string    `json:"product_id"`
	Quantity      int       `json:"quantity"`
	Amount        int64     `json:"amount"` // minor units of currency
	Currency      string    `json:"currency"`
	OccurredAt    time.Time `json:"occurred_at,omitzero"` // by order-service's database
}

// ErrUnknownType is the error of a message whose type has no e-mail here. A newer order-service may
// send it, so the next version of this service may know it: to try again may help.
var ErrUnknownType = errors.New("the message's type is unknown")

// Check returns why a message can never have its effect. It has the form of rabbitmq.Queue.Check.
func Check(m rabbitmq.Message) error {
	_, err := Parse(m)
	if errors.Is(err, ErrUnknownType) {
		return nil
	}
	return err
}

// Parse reads and validates an order event. It trusts a message no more than an HTTP request.
func Parse(m rabbitmq.Message) (Order, error) {
	// Another spelling of an id would be another message for the inbox.
	id, err := uuid.Parse(m.ID)
	if err != nil || id == uuid.Nil || id.String() != m.ID {
		return Order{}, fmt.Errorf("the message id %.300q is no UUID as RFC 9562 writes it", m.ID)
	}
	if !slices.Contains(Topics, m.Type) {
		return Order{}, fmt.Errorf("%w: %.300q", ErrUnknownType, m.Type)
	}
	var o Order
	if err := json.Unmarshal(m.Body, &o); err != nil {
		return Order{}, fmt.Errorf("the body is not the JSON of an order event: %w", err)
	}
	o.MessageID, o.Type = id, m.Type
	return o, errors.Join(
		unless(o.OrderID != uuid.Nil, "order_id is missing"),
		unless(o.OrderVersion > 0 && o.OrderVersion <= maxVersion, "order_version %d is not between 1 and %d", o.OrderVersion, maxVersion),
		unless(o.ProductID != "" && mailer.IsSingleLine(o.ProductID), "product_id is missing, or has control characters"),
		unless(o.Quantity > 0, "quantity %d is not positive", o.Quantity),
		unless(o.Amount > 0, "amount %d is not positive", o.Amount),
		unless(isCurrency(o.Currency), "currency %.300q is not of three letters", o.Currency),
		unless(o.CustomerEmail == "" || mailer.IsAddress(o.CustomerEmail), "customer_email is not an address"),
	)
}

// maxVersion is the largest int of the database.
const maxVersion = math.MaxInt32

func unless(valid bool, format string, args ...any) error {
	if valid {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func isCurrency(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
