package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/order"
)

// problemJSON is an error for a client, by RFC 9457.
type problemJSON struct {
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Errors []fieldError `json:"errors,omitempty"`
}

// fieldError says what is wrong with one field.
type fieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

func problem(status int, detail string, errs ...fieldError) problemJSON {
	return problemJSON{Title: http.StatusText(status), Status: status, Detail: detail, Errors: errs}
}

// problemOf returns the problem document for err. Errors that the client did not cause are
// logged here, and their text is not sent to the client.
func problemOf(r *http.Request, err error) problemJSON {
	if conflict, ok := errors.AsType[*order.StatusError](err); ok {
		return problem(http.StatusConflict, "the order is already "+string(conflict.Status)+", and that cannot change")
	}
	switch {
	case errors.Is(err, order.ErrNoOrder):
		return problem(http.StatusNotFound, "this order does not exist")
	case errors.Is(err, order.ErrNoProduct):
		return problem(http.StatusUnprocessableEntity, "this order cannot be placed",
			fieldError{Field: "product_id", Detail: "is not in the catalogue; GET /products lists it"})
	case errors.Is(err, order.ErrOverflow):
		return problem(http.StatusUnprocessableEntity, "this order cannot be placed",
			fieldError{Field: "quantity", Detail: "is too large for the price of this product"})
	case errors.Is(err, order.ErrKeyReused):
		return problem(http.StatusUnprocessableEntity, "this key was used for another order",
			fieldError{Field: "Idempotency-Key", Detail: "was used for another request; choose a new key for each order"})
	case errors.Is(err, context.Canceled):
		return problem(statusClientClosedRequest, "the request was cancelled")
	case postgres.Unavailable(err):
		slog.WarnContext(r.Context(), "request refused: the database is unavailable", "error", err)
		return problem(http.StatusServiceUnavailable, "the database is unavailable; try again")
	default:
		slog.ErrorContext(r.Context(), "request failed", "error", err)
		return internalError
	}
}

// statusClientClosedRequest is nginx's code. The client has gone and does not read this answer.
// The metrics count it as 4xx, because it is not an error of the service.
const statusClientClosedRequest = 499

var internalError = problem(http.StatusInternalServerError, "internal error; the log of the service has the reason")

func recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer recoverPanic(w, r)
		next.ServeHTTP(w, r)
	})
}

func recoverPanic(w http.ResponseWriter, r *http.Request) {
	if panicked := recover(); panicked != nil {
		slog.ErrorContext(r.Context(), "panic while answering a request", "error", panicked, "stack", string(debug.Stack()))
		writeProblem(w, r, internalError)
	}
}

func writeProblem(w http.ResponseWriter, r *http.Request, p problemJSON) {
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	case http.StatusUnsupportedMediaType:
		w.Header().Set("Accept-Encoding", "identity")
	}
	writeJSON(w, r, p.Status, "application/problem+json", p)
}
