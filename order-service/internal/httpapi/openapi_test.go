package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-chi/chi/v5"
)

// contract is the document that the API serves.
type contract struct {
	bench
	doc    *openapi3.T
	router routers.Router
}

func (b bench) contract() contract {
	b.Helper()
	served := b.send(http.MethodGet, "/openapi.yaml", "")
	doc, err := openapi3.NewLoader().LoadFromData([]byte(served.body))
	if err != nil {
		b.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		b.Fatal(err)
	}
	doc.Servers = openapi3.Servers{{URL: b.api.URL}}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		b.Fatal(err)
	}
	return contract{b, doc, router}
}

func TestEveryRouteIsInTheDocumentAndNoOther(t *testing.T) {
	t.Parallel()
	c := newBench(t).contract()
	var documented, served []string
	for path, item := range c.doc.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	err := chi.Walk(c.api.Config.Handler.(chi.Routes), func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served = append(served, method+" "+path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented:\n%s\nserved:\n%s", strings.Join(documented, "\n"), strings.Join(served, "\n"))
	}
}

// TestRequestsAndAnswersAreAsDocumented provokes every status that the document names
// and that a client can cause, and holds request and answer against it.
func TestRequestsAndAnswersAreAsDocumented(t *testing.T) {
	t.Parallel()
	c := newBench(t).contract()
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
		{http.MethodPost, "/orders", `{"product_id":"sku123","quantity":0}`, http.StatusUnprocessableEntity},
		{http.MethodPost, "/orders", `{"product_id":"` + strings.Repeat("x", 70<<10) + `","quantity":1}`, http.StatusRequestEntityTooLarge},
		{http.MethodGet, "/orders/" + placed, "", http.StatusOK},
		{http.MethodGet, "/orders/" + settled, "", http.StatusOK},
		{http.MethodGet, "/orders/none", "", http.StatusNotFound},
		{http.MethodPost, "/orders/" + placed + "/cancel", "", http.StatusOK},
		{http.MethodPost, "/orders/" + placed + "/confirm", "", http.StatusConflict},
		{http.MethodPost, "/orders/none/cancel", "", http.StatusNotFound},
		{http.MethodGet, "/products", "", http.StatusOK},
		{http.MethodGet, "/openapi.yaml", "", http.StatusOK},
	} {
		c.check(test.method, test.path, test.body, test.want)
	}
}

func (c contract) place() string {
	c.Helper()
	answer := c.check(http.MethodPost, "/orders", oneMug, http.StatusCreated)
	return strings.TrimPrefix(answer.Get("Location"), "/orders/")
}

// check sends a request and wants this status. The answer must be as documented, and so
// must a request that is taken.
func (c contract) check(method, path, body string, want int) http.Header {
	c.Helper()
	request, err := http.NewRequestWithContext(c.Context(), method, c.api.URL+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	name := fmt.Sprintf("%s %s %.60s", method, path, body)
	route, params, err := c.router.FindRoute(request)
	if err != nil {
		c.Fatalf("%s: %v", name, err)
	}
	input := &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: route}
	valid := openapi3filter.ValidateRequest(c.Context(), input)
	if taken := want < 300; taken != (valid == nil) && (taken || body != "" && want != http.StatusUnprocessableEntity) {
		c.Errorf("%s: %d, but for the document: %v", name, want, valid)
	}
	request.Body = io.NopCloser(strings.NewReader(body))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		c.Fatal(err)
	}
	if response.StatusCode != want {
		c.Errorf("%s: %d, want %d: %s", name, response.StatusCode, want, content)
	}
	err = openapi3filter.ValidateResponse(c.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: response.StatusCode, Header: response.Header,
		Body: io.NopCloser(bytes.NewReader(content)), Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil && path != "/openapi.yaml" { // a page of text: there is no schema to hold it against
		c.Errorf("%s: the answer is not as documented: %v", name, err)
	}
	return response.Header
}

func TestTheExamplesOfTheDocumentWork(t *testing.T) {
	t.Parallel()
	c := newBench(t).contract()
	example := c.doc.Paths.Find("/orders").Post.RequestBody.Value.Content.Get("application/json").Example.(map[string]any)
	c.check(http.MethodPost, "/orders", fmt.Sprintf(`{"product_id":%q,"quantity":%v}`, example["product_id"], example["quantity"]), http.StatusCreated)
}
