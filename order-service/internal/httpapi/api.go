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
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"example.com/transactional-outbox/order-service/internal/order"
)

// New returns the API of orders.
func New(orders *order.Service, limits Limits, metrics *Metrics) chi.Router {
	api := &api{orders: orders, metrics: metrics, places: semaphore.NewWeighted(int64(limits.InFlight))}
	r := chi.NewRouter()
	r.Use(bounded, middleware.GetHead)
	// After what wraps them, so that the router has matched the route when the span gets
	// its name.
	r.Use(otelhttp.NewMiddleware("http"), metrics.measure, named, recovered)

	r.NotFound(notFound)
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		// The router tells the methods of a path only to its own handler.
		methods := methodsOf(r, req.URL.EscapedPath())
		if len(methods) == 0 { // the router does not look for the path of a method that it does not know
			notFound(w, req)
			return
		}
		w.Header().Set("Allow", strings.Join(methods, ", "))
		write(w, req, problem(http.StatusMethodNotAllowed, "this path does not answer to "+req.Method))
	})
	r.Group(func(r chi.Router) {
		// Not above: to tell that there is nothing costs as little as to refuse.
		if limits.Rate > 0 {
			r.Use(api.limitRate(limits.Rate))
		}
		r.Post("/orders", api.placeOrder)
		r.Get("/orders/{id}", api.getOrder)
		r.Post("/orders/{id}/confirm", api.settleOrder(orders.Confirm))
		r.Post("/orders/{id}/cancel", api.settleOrder(orders.Cancel))
		r.Get("/products", api.listProducts)
		r.Get("/openapi.yaml", sendDocument)
	})
	metrics.startAtZero(r)
	return r
}

type api struct {
	orders  *order.Service
	metrics *Metrics
	places  *semaphore.Weighted // of the requests in hand
}

func notFound(w http.ResponseWriter, r *http.Request) {
	write(w, r, problem(http.StatusNotFound, "there is nothing at this path"))
}

// methodsOf lists what a path answers to. HEAD is a GET without the body.
func methodsOf(routes chi.Routes, path string) []string {
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost}
	return slices.DeleteFunc(methods, func(method string) bool {
		if method == http.MethodHead {
			method = http.MethodGet
		}
		return !routes.Match(chi.NewRouteContext(), method, path)
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
