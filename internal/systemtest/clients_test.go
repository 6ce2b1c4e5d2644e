package systemtest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAFloodIsRefusedAndTheRelayGoesOn has many more clients than there are places, and
// connections to the database.
func TestAFloodIsRefusedAndTheRelayGoesOn(t *testing.T) {
	t.Parallel()
	const enough = 100
	s := newSystem(t)
	s.keepLedger()
	orders := s.runOrders("HTTP_MAX_IN_FLIGHT=32")
	end := flood(t, orders, 500)
	for one[int](s, s.orders, published) < enough && t.Context().Err() == nil {
		time.Sleep(20 * time.Millisecond) // the outbox tells nobody
	}
	orders.awaitWaiting() // it is ready, in the middle of the flood
	statuses := end()
	placed, refused := statuses[http.StatusCreated], statuses[http.StatusServiceUnavailable]
	if placed < enough || refused == 0 || len(statuses) != 2 {
		t.Errorf("the statuses are %v, want some 201, some 503 and no other", statuses)
	}
	// Of the others it is not known: on a slow machine the database, too, may take too long.
	if got := orders.metric(`http_requests_refused_total{by="in_flight"}`); got == 0 || got > float64(refused) {
		t.Errorf("%v are counted as refused, of %v", got, statuses)
	}
	committed := one[int](s, s.orders, "SELECT count(*) FROM orders")
	if committed < placed || committed > placed+refused {
		t.Errorf("%d orders, and %v", committed, statuses)
	}
	s.awaitCount(s.orders, committed, published)
	s.place(orders)
}

// flood has so many clients place orders, each one after the other, and returns what they
// were answered until end.
func flood(t *testing.T, orders *service, clients int) (end func() map[int]int) {
	t.Helper()
	address := orders.address()
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(t.Context()) // ends the flood, and no request
	var running sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range clients {
		running.Go(func() {
			for ctx.Err() == nil {
				response, err := client.Post(address+"/orders", "application/json", strings.NewReader(oneMug))
				if err != nil {
					t.Error(err)
					return
				}
				_ = response.Body.Close()
				mu.Lock()
				statuses[response.StatusCode]++
				mu.Unlock()
			}
		})
	}
	stop := func() map[int]int {
		cancel()
		running.Wait()
		transport.CloseIdleConnections()
		return statuses
	}
	t.Cleanup(func() { stop() })
	return stop
}

// TestMoreConnectionsThanTheAPITakesWait until others leave. Operators do not.
func TestMoreConnectionsThanTheAPITakesWait(t *testing.T) {
	t.Parallel()
	orders := newSystem(t).runOrders()
	var idle []net.Conn
	for range 1024 {
		conn := connect(t, orders)
		awaitAnswer(t, conn)
		idle = append(idle, conn)
	}
	late := connect(t, orders)
	must(t, late.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the one too many: error %v, want that it waits", err)
	}
	if status, _ := orders.ask("/livez"); status != http.StatusOK {
		t.Errorf("/livez answers %d", status)
	}
	must(t, idle[0].Close())
	awaitAnswer(t, late)
}

// connect sends a request that costs nothing.
func connect(t *testing.T, orders *service) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(orders.address(), "http://"))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Write([]byte("GET /nothing HTTP/1.1\r\nHost: api\r\n\r\n"))
	must(t, err)
	return conn
}

func awaitAnswer(t *testing.T, conn net.Conn) {
	t.Helper()
	must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err := conn.Read(make([]byte, 1))
	must(t, err)
}
