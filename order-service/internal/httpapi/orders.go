package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/order-service/internal/outbox"
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
	slog.InfoContext(r.Context(), "create order request arrived")
	request, bad := readOrder(r)
	if bad != nil {
		write(w, r, *bad)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxDuration)
	defer cancel()
	placed, err := a.orders.Place(ctx, request)
	if err != nil {
		write(w, r, problemOf(r, err))
		return
	}
	w.Header().Set("Location", "/orders/"+placed.ID.String())
	answer(w, r, http.StatusCreated, orderAnswer{Order: orderOf(placed)})
}

func (a *api) getOrder(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), maxDuration)
	defer cancel()
	found, events, err := a.orders.Get(ctx, orderID(r))
	if err != nil {
		write(w, r, problemOf(r, err))
		return
	}
	answer(w, r, http.StatusOK, historyAnswer{Order: orderOf(found), Events: eventsOf(events)})
}

// settleOrder answers /confirm and /cancel, which take no body.
func settleOrder(settle func(context.Context, uuid.UUID) (order.Order, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), maxDuration)
		defer cancel()
		settled, err := settle(ctx, orderID(r))
		if err != nil {
			write(w, r, problemOf(r, err))
			return
		}
		answer(w, r, http.StatusOK, orderAnswer{Order: orderOf(settled)})
	}
}

// orderID is the id in the path. For what is no id it is uuid.Nil, which no order
// has: the answer is that there is no such order.
func orderID(r *http.Request) uuid.UUID {
	id, err := uuid.Parse(chi.URLParam(r, "id"))
	if err != nil {
		return uuid.Nil
	}
	return id
}

func orderOf(o order.Order) orderJSON {
	return orderJSON{
		ID: o.ID, CustomerID: o.CustomerID, ProductID: o.ProductID, Quantity: o.Quantity,
		Amount: o.Amount.Minor(), Currency: o.Amount.Currency(), Status: o.Status, CreatedAt: o.CreatedAt,
	}
}

func eventsOf(events []outbox.Event) []eventJSON {
	list := make([]eventJSON, 0, len(events))
	for _, e := range events {
		list = append(list, eventJSON(e))
	}
	return list
}
