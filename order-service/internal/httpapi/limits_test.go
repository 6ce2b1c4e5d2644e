package httpapi_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/order-service/internal/httpapi"
	"example.com/transactional-outbox/test/env/servers"
)

// TestARequestBeyondTheLimitIsRefusedAtOnce holds another request in its commit.
func TestARequestBeyondTheLimitIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	db, url := postgrestest.Migrated(t, schema)
	b := newLimitedFixture(t, db, httpapi.Limits{InFlight: 1})
	held := servers.HoldCommits(t, url, "orders")
	first := make(chan reply)
	go func() { first <- b.post(oneMug) }()
	held.Await()

	b.placeWith("a-key", oneMug).isUnavailable(t)
	b.get("/orders/none").isUnavailable(t)
	b.send(http.MethodPost, "/orders/none/confirm", "").isUnavailable(t)
	b.get("/products").isUnavailable(t)
	b.post("{").isProblem(t, http.StatusBadRequest) // a client error, for which the database is not used
	if n := b.metric(map[string]string{"by": "in_flight"}).GetCounter().GetValue(); n != 4 {
		t.Errorf("%v requests are counted as refused, want 4", n)
	}

	held.Release()
	if got := <-first; got.status != http.StatusCreated {
		t.Errorf("the first: %d %s", got.status, got.body)
	}
	retried, again := b.placeWith("a-key", oneMug), b.placeWith("a-key", oneMug)
	if retried.status != http.StatusCreated || again.body != retried.body {
		t.Errorf("after the refusal: %+v, and then %+v", retried, again)
	}
	if n := b.countRows(); n != 4 {
		t.Errorf("%d rows of two orders and their events", n)
	}
}

// TestSlowClientsDoNotBlockOthers: neither the places of requests in flight nor the time of the database
// are used before the body is there.
func TestSlowClientsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	db, _ := postgrestest.Migrated(t, schema)
	api := newAPI(db, httpapi.Limits{InFlight: 1}, prometheus.NewRegistry())
	order := func(body io.Reader) reply {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", body)
		request.Header.Set("Content-Type", "application/json")
		return answerOf(api, request)
	}
	answers := make(chan reply)
	var slow []*io.PipeWriter
	for range 3 {
		body, client := io.Pipe()
		go func() { answers <- order(body) }()
		if _, err := io.WriteString(client, oneMug[:10]); err != nil { // the API reads it
			t.Fatal(err)
		}
		slow = append(slow, client)
	}
	if got := order(strings.NewReader(oneMug)); got.status != http.StatusCreated {
		t.Errorf("a client that is not slow: %d %s", got.status, got.body)
	}
	for cause, status := range map[error]int{os.ErrDeadlineExceeded: http.StatusRequestTimeout, io.ErrUnexpectedEOF: http.StatusBadRequest} {
		_ = slow[0].CloseWithError(cause)
		(<-answers).isProblem(t, status)
		slow = slow[1:]
	}
	if _, err := io.WriteString(slow[0], oneMug[10:]); err != nil {
		t.Fatal(err)
	}
	_ = slow[0].Close()
	if got := <-answers; got.status != http.StatusCreated {
		t.Errorf("a slow client: %d %s", got.status, got.body)
	}
}

func TestTheRateIsLimitedForEachAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(nil, httpapi.Limits{InFlight: 1, Rate: 2}, prometheus.NewRegistry())
		ask := func(address, path string) reply {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			request.RemoteAddr = net.JoinHostPort(address, "4321")
			return answerOf(api, request)
		}
		refused := func(address string) bool {
			got := ask(address, "/openapi.yaml")
			if got.status == http.StatusOK {
				return false
			}
			got.isProblem(t, http.StatusTooManyRequests)
			if after := got.header.Get("Retry-After"); after != "1" {
				t.Errorf("Retry-After is %q", after)
			}
			return true
		}
		for i, step := range []struct {
			address string
			refused bool
		}{
			{"192.0.2.1", false},
			{"192.0.2.1", false},
			{"192.0.2.1", true},
			{"192.0.2.2", false},
			{"2001:db8::1", false},
			{"2001:db8::2", false},
			{"2001:db8::3", true}, // the same network
			{"2001:db8:0:1::1", false},
		} {
			if got := refused(step.address); got != step.refused {
				t.Errorf("request %d, from %s: refused %t", i, step.address, got)
			}
		}
		ask("192.0.2.1", "/nothing").isProblem(t, http.StatusNotFound)
		time.Sleep(2 * time.Second)
		if refused("192.0.2.1") {
			t.Error("refused after two seconds of silence")
		}
	})
}
