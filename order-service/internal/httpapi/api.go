// Package httpapi is the way in: it turns HTTP requests into orders, and errors
// into problem documents (RFC 9457) that name the field and tell no internals.
//
//	$ curl -X POST -H "Content-Type: application/json" \
//	    -d '{"product_id":"sku123","quantity":1}' http://localhost:4000/orders
//	201 {"order":{"id":"0199…","product_id":"sku123","quantity":1,"amount":2999,"currency":"GBP","status":"pending",…}}
//
//	$ curl http://localhost:4000/orders/0199…
//	200 {"order":{…},"events":[{"event_key":"order.created","status":"published",…}]}
package httpapi

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/order-service/internal/order"
)

// maxBody bounds a request body, in bytes; maxDuration bounds the work on one
// request, once its body is read: a slow client is not a slow database. An order
// needs a thousandth of either.
const (
	maxBody     = 64 << 10
	maxDuration = 5 * time.Second
)

// New returns the API of orders.
func New(orders *order.Service, metrics *Metrics) chi.Router {
	api := &api{orders: orders}
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, bounded)
	// Last, so that the router has matched the route when the span gets its name.
	r.Use(otelhttp.NewMiddleware("http"), metrics.measure, named)

	r.NotFound(func(w http.ResponseWriter, req *http.Request) {
		write(w, req, problem(http.StatusNotFound, "there is nothing at this path"))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		// The router tells the methods of a path only to its own handler.
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if r.Match(chi.NewRouteContext(), method, req.URL.EscapedPath()) {
				w.Header().Add("Allow", method)
			}
		}
		write(w, req, problem(http.StatusMethodNotAllowed, "this path does not answer to "+req.Method))
	})
	r.Post("/orders", api.placeOrder)
	r.Get("/orders/{id}", api.getOrder)
	r.Post("/orders/{id}/confirm", settleOrder(orders.Confirm))
	r.Post("/orders/{id}/cancel", settleOrder(orders.Cancel))
	r.Get("/products", api.listProducts)
	r.Get("/openapi.yaml", sendDocument)
	metrics.startAtZero(r)
	return r
}

type api struct{ orders *order.Service }

func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// named puts the route into the span; a path with ids in it would make a new
// operation of every order.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		route := chi.RouteContext(r.Context()).RoutePattern()
		trace.SpanFromContext(r.Context()).SetAttributes(attribute.String("http.route", route))
	})
}
