// Package httpapi is the HTTP API. It turns requests into orders, and errors into problem
// documents (RFC 9457) that name the wrong field and contain no internals.
//
//	$ curl -X POST -H "Content-Type: application/json" \
//	    -d '{"product_id":"sku123","quantity":1}' http://localhost:4000/orders
//	201 {"order":{"id":"0199…","product_id":"sku123","quantity":1,"amount":2999,"currency":"GBP","status":"pending",…}}
//
//	$ curl http://localhost:4000/orders/0199…
//	200 {"order":{…},"events":[{"event_key":"order.created","status":"published",…}]}
package httpapi

import (
	_ "embed"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"example.com/transactional-outbox/order-service/internal/order"
)

// New returns the API of orders.
func New(orders *order.Service, limits Limits, metrics *Metrics) chi.Router {
	api := &api{orders: orders, metrics: metrics, slots: semaphore.NewWeighted(int64(limits.InFlight))}
	r := chi.NewRouter()
	r.Use(limitBody, middleware.GetHead)
	// They read the route after the handler has run, when the router has matched it.
	r.Use(otelhttp.NewMiddleware("http"), metrics.measure, nameSpan, recoverPanics)

	r.NotFound(notFound)
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		// Only the router's own handler knows the methods of a path.
		methods := methodsOf(r, req.URL.EscapedPath())
		if len(methods) == 0 { // the method is unknown to the router, so it has not looked for the path
			notFound(w, req)
			return
		}
		w.Header().Set("Allow", strings.Join(methods, ", "))
		writeProblem(w, req, problem(http.StatusMethodNotAllowed, "this path does not support the method "+req.Method))
	})
	r.Group(func(r chi.Router) {
		// 404s are not rate-limited: they cost no more than a 429.
		if limits.Rate > 0 {
			r.Use(api.limitRate(limits.Rate))
		}
		r.Post("/orders", api.placeOrder)
		r.Get("/orders/{id}", api.getOrder)
		r.Post("/orders/{id}/confirm", api.changeStatus(orders.Confirm))
		r.Post("/orders/{id}/cancel", api.changeStatus(orders.Cancel))
		r.Get("/products", api.listProducts)
		r.Get("/openapi.yaml", serveDocument)
	})
	metrics.startAtZero(r)
	return r
}

type api struct {
	orders  *order.Service
	metrics *Metrics
	slots   *semaphore.Weighted // one for each request in progress
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeProblem(w, r, problem(http.StatusNotFound, "this path does not exist"))
}

// methodsOf lists the methods of a path. HEAD is a GET without the body.
func methodsOf(routes chi.Routes, path string) []string {
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost}
	return slices.DeleteFunc(methods, func(method string) bool {
		if method == http.MethodHead {
			method = http.MethodGet
		}
		return !routes.Match(chi.NewRouteContext(), method, path)
	})
}

// nameSpan sets the span's route. With the path instead, every order id would be a new
// operation.
func nameSpan(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		route := chi.RouteContext(r.Context()).RoutePattern()
		trace.SpanFromContext(r.Context()).SetAttributes(attribute.String("http.route", route))
	})
}

//go:embed openapi.yaml
var document []byte

// serveDocument sends the OpenAPI document of this API.
func serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(document)
}

// writeAnswer answers a request that succeeded.
func writeAnswer(w http.ResponseWriter, r *http.Request, status int, v any) {
	writeJSON(w, r, status, "application/json", v)
}

func writeJSON(w http.ResponseWriter, r *http.Request, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	if err := json.MarshalWrite(w, v); err != nil {
		slog.DebugContext(r.Context(), "the client did not take its answer", "error", err)
	}
}
