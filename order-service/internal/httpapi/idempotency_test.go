package httpapi_test

import (
	"net/http"
	"strings"
	"sync"
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

func TestFiftyRequestsWithOneKeyGetOneAnswer(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	answers := make([]reply, 50)
	var clients sync.WaitGroup
	for i := range answers {
		clients.Go(func() { answers[i] = b.placeWith("a-key", oneMug) })
	}
	clients.Wait()
	for _, got := range answers {
		if got.status != http.StatusCreated || got.body != answers[0].body {
			t.Errorf("got %d %s, and another %d %s", got.status, got.body, answers[0].status, answers[0].body)
		}
	}
	if n := b.countRows(); n != 2 {
		t.Errorf("%d rows of one order and its event", n)
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
