package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/outbox/operate"
)

type orderJSON struct {
	ID         uuid.UUID    `json:"id"`
	CustomerID uuid.UUID    `json:"customer_id"`
	ProductID  string       `json:"product_id"`
	Quantity   int          `json:"quantity"`
	Amount     int64        `json:"amount"` // minor units of currency
	Currency   string       `json:"currency"`
	Status     order.Status `json:"status"`
	CreatedAt  time.Time    `json:"created_at"`
}

type eventJSON struct {
	ID          uuid.UUID  `json:"id"`
	EventKey    string     `json:"event_key"`
	Status      string     `json:"status"`
	RetryCount  int        `json:"retry_count"`
	CreatedAt   time.Time  `json:"created_at"`
	PublishedAt *time.Time `json:"published_at"`
	FailureCode *string    `json:"failure_code"`
}

type orderAnswer struct {
	Order orderJSON `json:"order"`
}

type historyAnswer struct {
	Order  orderJSON   `json:"order"`
	Events []eventJSON `json:"events"`
}

func (a *api) placeOrder(w http.ResponseWriter, r *http.Request) {
	telemetry.Milestone(r.Context(), "create order request arrived")
	request, bad := readOrder(r)
	if bad != nil {
		writeProblem(w, r, *bad)
		return
	}
	a.withinLimits(w, r, func(ctx context.Context) error {
		placed, err := a.orders.Place(ctx, request)
		if err != nil {
			return err
		}
		w.Header().Set("Location", "/orders/"+placed.ID.String())
		writeAnswer(w, r, http.StatusCreated, orderAnswer{Order: orderOf(placed)})
		return nil
	})
}

func (a *api) getOrder(w http.ResponseWriter, r *http.Request) {
	a.withinLimits(w, r, func(ctx context.Context) error {
		found, events, err := a.orders.Get(ctx, orderID(r))
		if err != nil {
			return err
		}
		writeAnswer(w, r, http.StatusOK, historyAnswer{Order: orderOf(found), Events: eventsOf(events)})
		return nil
	})
}

// changeStatus handles /confirm and /cancel, which take no body.
func (a *api) changeStatus(change func(context.Context, uuid.UUID) (order.Order, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.withinLimits(w, r, func(ctx context.Context) error {
			changed, err := change(ctx, orderID(r))
			if err != nil {
				return err
			}
			writeAnswer(w, r, http.StatusOK, orderAnswer{Order: orderOf(changed)})
			return nil
		})
	}
}

// orderID is the id in the path. If that is not an id, it is uuid.Nil. No order has that id, so
// the answer is 404.
func orderID(r *http.Request) uuid.UUID {
	id, _ := parseID(chi.URLParam(r, "id"))
	return id
}

// parseID accepts only the usual form of an id. The library also accepts ids in braces, as a
// URN, or without hyphens.
func parseID(s string) (id uuid.UUID, ok bool) {
	if len(s) != len(uuid.Nil.String()) {
		return uuid.Nil, false
	}
	id, err := uuid.Parse(s)
	return id, err == nil && id != uuid.Nil
}

func orderOf(o order.Order) orderJSON {
	return orderJSON{
		ID: o.ID, CustomerID: o.CustomerID, ProductID: o.ProductID, Quantity: o.Quantity,
		Amount: o.Amount.Minor(), Currency: o.Amount.Currency(), Status: o.Status, CreatedAt: o.CreatedAt,
	}
}

func eventsOf(events []operate.Event) []eventJSON {
	list := make([]eventJSON, 0, len(events))
	for _, e := range events {
		one := eventJSON{
			ID: e.ID, EventKey: e.Topic, Status: e.Status, RetryCount: e.RetryCount,
			CreatedAt: e.CreatedAt, PublishedAt: e.PublishedAt,
		}
		if e.FailureCode != "" {
			one.FailureCode = &e.FailureCode
		}
		list = append(list, one)
	}
	return list
}
