package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Serve answers the HTTP requests of the load until ctx ends: it calls change for each order that
// is placed, confirmed or cancelled. A client may repeat a request: if its order is stored, the
// answer is this order, and change is not called again.
func (s *Shop) Serve(ctx context.Context, change func(context.Context, Event) error) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var order struct {
			Email string `json:"customer_email"`
		}
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		e := Event{ID: uuid.NewString(), Key: "order.created", OrderID: uuid.NewString(), Version: 1, Email: order.Email}
		// The load has an address for each order, and the same one in a repeated request.
		err := s.DB.QueryRow(r.Context(), "SELECT id::text FROM orders WHERE customer_email = $1", order.Email).Scan(&e.OrderID)
		switch {
		case err == nil:
			answer(w, r, e, http.StatusCreated, func(context.Context, Event) error { return nil })
		case errors.Is(err, pgx.ErrNoRows):
			answer(w, r, e, http.StatusCreated, change)
		default:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	for action, key := range map[string]string{"confirm": "order.confirmed", "cancel": "order.cancelled"} {
		mux.HandleFunc("POST /orders/{id}/"+action, func(w http.ResponseWriter, r *http.Request) {
			e := Event{ID: uuid.NewString(), Key: key, OrderID: r.PathValue("id")}
			err := s.DB.QueryRow(r.Context(), "SELECT version + 1, customer_email FROM orders WHERE id = $1", e.OrderID).Scan(&e.Version, &e.Email)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answer(w, r, e, http.StatusOK, change)
		})
	}
	return listen(ctx, mux)
}

// listen serves HTTP on a free port, and logs its address.
func listen(ctx context.Context, handler http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	slog.InfoContext(ctx, "taking orders", "address", listener.Addr().String())
	return server.Serve(listener)
}

// requestTimeout limits a change. It is shorter than the time for which the clients wait.
const requestTimeout = 5 * time.Second

func answer(w http.ResponseWriter, r *http.Request, e Event, status int, change func(context.Context, Event) error) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	if err := change(ctx, e); err != nil {
		slog.ErrorContext(ctx, "order refused", "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"order":{"id":%q,"amount":1,"currency":"GBP"}}`, e.OrderID)
}
