package httpapi_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/order-service/internal/httpapi"
	"example.com/transactional-outbox/test/servers"
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

// TestSlowClientsDoNotBlockOthers has many more slow clients than there may be requests in
// flight. Their bodies never end.
func TestSlowClientsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	db, _ := postgrestest.Migrated(t, schema)
	address := serve(t, newAPI(db, httpapi.Limits{InFlight: 4}, prometheus.NewRegistry()))
	var slow []*bufio.Reader
	for range 300 {
		slow = append(slow, sendHalf(t, address))
	}
	if status, err := placeAt(t.Context(), http.DefaultClient, "http://"+address, "a-key"); err != nil || status != http.StatusCreated {
		t.Errorf("a client that is not slow: %d, error %v", status, err)
	}
	for _, answer := range slow {
		if got := readReply(t, answer); got.status != http.StatusRequestTimeout {
			t.Errorf("a slow one: %d %s", got.status, got.body)
		}
		if _, err := answer.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("its connection: %v, want that it is closed", err)
		}
	}
}

// sendHalf sends half a body, after the API has asked for the body.
func sendHalf(t *testing.T, address string) *bufio.Reader {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	answer := bufio.NewReader(conn)
	if got := readReply(t, answer); got.status != http.StatusContinue {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if _, err := io.WriteString(conn, oneMug[:10]); err != nil {
		t.Fatal(err)
	}
	return answer
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

func TestWithoutARateLimitNoRequestIsRefused(t *testing.T) {
	t.Parallel()
	b := newFixtureOn(t, nil)
	for range 100 {
		if got := b.get("/openapi.yaml"); got.status != http.StatusOK {
			t.Fatalf("status %d", got.status)
		}
	}
}
