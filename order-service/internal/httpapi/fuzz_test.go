package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/transactional-outbox/order-service/internal/order"
)

// FuzzReadOrder checks that every body gives either a request within the bounds or a 4xx
// problem.
func FuzzReadOrder(f *testing.F) {
	for _, body := range []string{
		`{"product_id":"sku123","quantity":1}`, `{"product_id":"sku123","quantity":1,"customer_email":"ada@example.com","customer_id":null}`,
		`{"product_id":"sku123","product_id":"sku123"}`, `{"Product_ID":1}`, `{"quantity":1e400}`, "\xff", "[[[[", `{"product_id":"\ud800"}`, "null",
	} {
		f.Add(body, "a-key")
	}
	f.Fuzz(func(t *testing.T, body, key string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", strings.NewReader(body))
		r.Header["Content-Type"], r.Header["Idempotency-Key"] = []string{"application/json"}, []string{key}
		read, bad := readOrder(r)
		switch {
		case bad != nil && (bad.Status < 400 || bad.Status > 499 || bad.Detail == ""):
			t.Errorf("%q: %+v", body, bad)
		case bad == nil && (read.ProductID == "" || read.Quantity < 1 || read.Quantity > order.MaxQuantity ||
			strings.ContainsAny(read.CustomerEmail+read.IdempotencyKey, "\x00\r\n")):
			t.Errorf("%q was read as %+v", body, read)
		}
	})
}
