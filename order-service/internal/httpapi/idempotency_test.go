package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

func (b fixture) placeWith(key, body string) reply {
	b.Helper()
	return b.send(http.MethodPost, "/orders", body, "Content-Type", "application/json", "Idempotency-Key", key)
}

func TestARepeatWithItsKeyGetsTheSameAnswer(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	first, again := b.placeWith("a-key", oneMug), b.placeWith("a-key", `{ "quantity": 1, "product_id": "sku123" }`)
	if first.status != http.StatusCreated || again.status != http.StatusCreated || again.body != first.body ||
		again.header.Get("Location") != first.header.Get("Location") {
		t.Errorf("first %+v, then %+v", first, again)
	}
	other := b.placeWith("a-key", `{"product_id":"sku123","quantity":2}`)
	if other.status != http.StatusUnprocessableEntity || !strings.Contains(other.body, "Idempotency-Key") {
		t.Errorf("another request: %+v", other)
	}
	if fresh := b.placeWith("another-key", oneMug); fresh.status != http.StatusCreated || fresh.body == first.body {
		t.Errorf("another key: %+v", fresh)
	}
}

func TestAMalformedKeyIsRefusedByItsName(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	for _, key := range []string{"", "two words", "schlüssel", strings.Repeat("k", 256)} {
		got := b.placeWith(key, oneMug)
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, "Idempotency-Key") {
			t.Errorf("key %.20q: %d %s", key, got.status, got.body)
		}
	}
	twice := b.send(http.MethodPost, "/orders", oneMug, "Content-Type", "application/json", "Idempotency-Key", "a", "Idempotency-Key", "b")
	if twice.status != http.StatusBadRequest {
		t.Errorf("two keys: %+v", twice)
	}
}
