package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/order-service/internal/httpapi"
	"example.com/transactional-outbox/test/env/check"
)

// contract is the document that an API serves, and the API. There is no network: all requests come
// from the same address.
type contract struct {
	*testing.T
	api    http.Handler
	doc    *openapi3.T
	router routers.Router
}

func newContract(t *testing.T, api http.Handler) contract {
	t.Helper()
	c := contract{T: t, api: api}
	served := answerOf(api, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.yaml", nil))
	var err error
	c.doc, err = openapi3.NewLoader().LoadFromData([]byte(served.body))
	check.Must(t, err)
	check.Must(t, c.doc.Validate(context.Background()))
	c.doc.Servers = openapi3.Servers{{URL: "http://api"}}
	c.router, err = gorillamux.NewRouter(c.doc)
	check.Must(t, err)
	return c
}

func TestEveryRouteIsInTheDocumentAndNoOther(t *testing.T) {
	t.Parallel()
	c := newContract(t, newFixture(t).api.Config.Handler)
	var documented, served []string
	for path, item := range c.doc.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	err := chi.Walk(c.api.(chi.Routes), func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served = append(served, method+" "+path)
		return nil
	})
	check.Must(t, err)
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented:\n%s\nserved:\n%s", strings.Join(documented, "\n"), strings.Join(served, "\n"))
	}
}

// TestRequestsAndAnswersAreAsDocumented provokes every documented status for a wrong request, and
// checks request and answer against the document.
func TestRequestsAndAnswersAreAsDocumented(t *testing.T) {
	t.Parallel()
	c := newContract(t, newFixture(t).api.Config.Handler)
	placed := c.place()
	settled := c.place()
	c.check(http.MethodPost, "/orders/"+settled+"/confirm", "", http.StatusOK)
	for _, test := range []struct {
		method, path, body string
		want               int
	}{
		{http.MethodPost, "/orders", `{"product_id":"sku123","quantity":2,"customer_email":"ada@example.com","customer_id":null}`, http.StatusCreated},
		{http.MethodPost, "/orders", `{"product_id":"sku123"`, http.StatusBadRequest},
		{http.MethodPost, "/orders", `{"product_id":"sku123","quantity":1,"price":1}`, http.StatusBadRequest},
		{http.MethodPost, "/orders", `{"product_id":"unheard-of","quantity":1}`, http.StatusUnprocessableEntity},
		{http.MethodPost, "/orders", `{"product_id":"` + strings.Repeat("x", 70<<10) + `","quantity":1}`, http.StatusRequestEntityTooLarge},
		{http.MethodGet, "/orders/" + settled, "", http.StatusOK},
		{http.MethodGet, "/orders/none", "", http.StatusNotFound},
		{http.MethodPost, "/orders/" + placed + "/cancel", "", http.StatusOK},
		{http.MethodPost, "/orders/" + placed + "/confirm", "", http.StatusConflict},
		{http.MethodPost, "/orders/none/cancel", "", http.StatusNotFound},
	} {
		c.check(test.method, test.path, test.body, test.want)
	}
	c.checkWith(http.MethodPost, "/orders", oneMug, http.StatusUnsupportedMediaType, http.Header{"Content-Type": {"text/plain"}})
	c.checkWith(http.MethodPost, "/orders", oneMug, http.StatusBadRequest, http.Header{"Idempotency-Key": {"two words"}})
}

// TestRefusalsAreAsDocumented provokes the refusals that any call may get.
func TestRefusalsAreAsDocumented(t *testing.T) {
	t.Parallel()
	for status, limits := range map[int]httpapi.Limits{
		http.StatusServiceUnavailable: {InFlight: 0},
		http.StatusTooManyRequests:    {InFlight: 256, Rate: 1}, // the request for the document is already one
	} {
		synctest.Test(t, func(t *testing.T) { // in a bubble the second does not pass
			c := newContract(t, newAPI(nil, limits, prometheus.NewRegistry()))
			for path, item := range c.doc.Paths.Map() {
				for method, operation := range item.Operations() {
					if operation.Responses.Status(status) != nil {
						body, header := exampleOf(t, operation)
						c.checkWith(method, strings.ReplaceAll(path, "{id}", "none"), body, status, header)
					}
				}
			}
		})
	}
}

func (c contract) place() string {
	c.Helper()
	answer := c.check(http.MethodPost, "/orders", oneMug, http.StatusCreated)
	return strings.TrimPrefix(answer.Get("Location"), "/orders/")
}

// check sends a request and wants this status. The answer must be as documented. If the request
// is accepted, it must be as documented as well.
func (c contract) check(method, path, body string, want int) http.Header {
	c.Helper()
	header := http.Header{}
	if body != "" {
		header.Set("Content-Type", "application/json")
	}
	return c.checkWith(method, path, body, want, header)
}

func (c contract) checkWith(method, path, body string, want int, header http.Header) http.Header {
	c.Helper()
	request := httptest.NewRequestWithContext(c.Context(), method, "http://api"+path, strings.NewReader(body))
	request.Header = header
	name := fmt.Sprintf("%s %s %.60s", method, path, body)
	route, params, err := c.router.FindRoute(request)
	if err != nil {
		c.Fatalf("%s: %v", name, err)
	}
	input := &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: route}
	valid := openapi3filter.ValidateRequest(c.Context(), input)
	malformed := slices.Contains([]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}, want)
	if taken := want < 300; taken && valid != nil || malformed && valid == nil {
		c.Errorf("%s: %d, but for the document: %v", name, want, valid)
	}
	request.Body = io.NopCloser(strings.NewReader(body))
	got := answerOf(c.api, request)
	if got.status != want {
		c.Errorf("%s: %d, want %d: %s", name, got.status, want, got.body)
	}
	err = openapi3filter.ValidateResponse(c.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: got.status, Header: got.header,
		Body: io.NopCloser(strings.NewReader(got.body)), Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil && path != "/openapi.yaml" { // it is plain text and has no schema
		c.Errorf("%s: the answer is not as documented: %v", name, err)
	}
	return got.header
}

// TestTheExamplesOfTheDocumentWork calls every operation with the document's own examples. It
// replaces the id by one that exists.
func TestTheExamplesOfTheDocumentWork(t *testing.T) {
	t.Parallel()
	c := newContract(t, newFixture(t).api.Config.Handler)
	called := 0
	for path, item := range c.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			body, header := exampleOf(t, operation)
			want := http.StatusOK
			if method+" "+path == "POST /orders" {
				want = http.StatusCreated
			}
			c.checkWith(method, strings.ReplaceAll(path, "{id}", c.place()), body, want, header)
			called++
		}
	}
	if called == 0 {
		t.Error("nothing was called")
	}
}

func exampleOf(t *testing.T, operation *openapi3.Operation) (body string, header http.Header) {
	t.Helper()
	header = http.Header{}
	for _, parameter := range operation.Parameters {
		if parameter.Value.Example == nil {
			t.Errorf("%s: %s has no example", operation.OperationID, parameter.Value.Name)
		} else if parameter.Value.In == "header" {
			header.Set(parameter.Value.Name, parameter.Value.Example.(string))
		}
	}
	if operation.RequestBody != nil {
		example, err := json.Marshal(operation.RequestBody.Value.Content.Get("application/json").Example)
		check.Must(t, err)
		body = string(example)
		header.Set("Content-Type", "application/json")
	}
	return body, header
}
