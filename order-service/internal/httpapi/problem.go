package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/go-json-experiment/json"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/order"
)

// problemJSON is an error for a client, by RFC 9457.
type problemJSON struct {
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Errors []fieldFault `json:"errors,omitempty"`
}

// fieldFault names one field and what is wrong with it.
type fieldFault struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

func problem(status int, detail string, faults ...fieldFault) problemJSON {
	return problemJSON{Title: http.StatusText(status), Status: status, Detail: detail, Errors: faults}
}

// problemOf tells a client of err. What is not the client's own doing is logged
// here, once, and told without its text.
func problemOf(r *http.Request, err error) problemJSON {
	if settled, ok := errors.AsType[*order.StatusError](err); ok {
		return problem(http.StatusConflict, "the order is "+string(settled.Status)+" already, and stays so")
	}
	switch {
	case errors.Is(err, order.ErrNoOrder):
		return problem(http.StatusNotFound, "there is no such order")
	case errors.Is(err, order.ErrNoProduct):
		return problem(http.StatusUnprocessableEntity, "the order cannot be placed as it is",
			fieldFault{Field: "product_id", Detail: "is not in the catalogue: see GET /products"})
	case errors.Is(err, order.ErrOverflow):
		return problem(http.StatusUnprocessableEntity, "the order cannot be placed as it is",
			fieldFault{Field: "quantity", Detail: "is too large for the price of this product"})
	case errors.Is(err, order.ErrKeyReused):
		return problem(http.StatusUnprocessableEntity, "this key belongs to another order",
			fieldFault{Field: "Idempotency-Key", Detail: "was used for another request: choose a new one for each order"})
	case errors.Is(err, context.Canceled):
		return problem(statusClientGone, "the request was cancelled")
	case postgres.Unavailable(err):
		slog.WarnContext(r.Context(), "request refused: the database is unavailable", "error", err)
		return problem(http.StatusServiceUnavailable, "the database is away for the moment; try again")
	default:
		slog.ErrorContext(r.Context(), "request failed", "error", err)
		return ourFault
	}
}

// statusClientGone is nginx's. Nobody reads this answer, but the metrics count it: a
// client that hangs up must not look like an error of the service.
const statusClientGone = 499

var ourFault = problem(http.StatusInternalServerError, "this is our fault; the log has the reason")

func recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer tellOfPanic(w, r)
		next.ServeHTTP(w, r)
	})
}

func tellOfPanic(w http.ResponseWriter, r *http.Request) {
	if cause := recover(); cause != nil {
		slog.ErrorContext(r.Context(), "panic while answering a request", "error", cause, "stack", string(debug.Stack()))
		write(w, r, ourFault)
	}
}

func write(w http.ResponseWriter, r *http.Request, p problemJSON) {
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	case http.StatusUnsupportedMediaType:
		w.Header().Set("Accept-Encoding", "identity")
	}
	send(w, r, p.Status, "application/problem+json", p)
}

func answer(w http.ResponseWriter, r *http.Request, status int, v any) {
	send(w, r, status, "application/json", v)
}

func send(w http.ResponseWriter, r *http.Request, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	if err := json.MarshalWrite(w, v); err != nil {
		slog.DebugContext(r.Context(), "the client did not take its answer", "error", err)
	}
}
