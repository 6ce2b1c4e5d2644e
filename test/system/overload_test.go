package system

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

// TestOverloadIsRefusedAndTheRelayContinues has many more clients than the API serves at a
// time, and than there are connections to the database.
func TestOverloadIsRefusedAndTheRelayContinues(t *testing.T) {
	t.Parallel()
	const enough = 100
	s := newSystem(t)
	s.bindAuditQueue()
	orders := s.runOrders("HTTP_MAX_IN_FLIGHT=32")
	end := startFlood(t, orders, 500)
	for queryValue[int](s, s.ordersDB, publishedCount) < enough && t.Context().Err() == nil {
		time.Sleep(20 * time.Millisecond) // nothing reports a published event
	}
	orders.awaitReadyz() // the service is ready during the flood
	statuses := end()
	placed, refused := statuses[http.StatusCreated], statuses[http.StatusServiceUnavailable]
	if placed < enough || refused == 0 || len(statuses) != 2 {
		t.Errorf("the statuses are %v, want some 201, some 503 and no other", statuses)
	}
	// A 503 can have another reason: on a slow machine, the database may take too long.
	if got := orders.metric(`http_requests_refused_total{by="in_flight"}`); got == 0 || got > float64(refused) {
		t.Errorf("%v are counted as refused, of %v", got, statuses)
	}
	committed := queryValue[int](s, s.ordersDB, "SELECT count(*) FROM orders")
	if committed < placed || committed > placed+refused {
		t.Errorf("%d orders, and %v", committed, statuses)
	}
	s.awaitCount(s.ordersDB, committed, publishedCount)
	s.place(orders)
}

// startFlood starts clients that place orders without a pause. end stops them and returns
// how often each status was answered.
func startFlood(t *testing.T, orders *service, clients int) (end func() map[int]int) {
	t.Helper()
	address := orders.address()
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(t.Context()) // ends the flood but interrupts no request
	var running sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range clients {
		running.Go(func() {
			for ctx.Err() == nil {
				response, err := client.Post(address+"/orders", "application/json", strings.NewReader(orderBody))
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

// TestConnectionsBeyondTheLimitWait also checks that operators' requests do not wait.
func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	t.Parallel()
	orders := newSystem(t).runOrders()
	var idle []net.Conn
	for range 1024 {
		conn := sendRequest(t, orders)
		awaitResponse(t, conn)
		idle = append(idle, conn)
	}
	late := sendRequest(t, orders)
	must(t, late.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection beyond the limit: error %v, want it to wait", err)
	}
	if status, _ := orders.getOps("/livez"); status != http.StatusOK {
		t.Errorf("/livez answers %d", status)
	}
	must(t, idle[0].Close())
	awaitResponse(t, late)
}

// sendRequest sends a request that needs no database.
func sendRequest(t *testing.T, orders *service) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(orders.address(), "http://"))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Write([]byte("GET /nothing HTTP/1.1\r\nHost: api\r\n\r\n"))
	must(t, err)
	return conn
}

func awaitResponse(t *testing.T, conn net.Conn) {
	t.Helper()
	must(t, conn.SetReadDeadline(time.Now().Add(awaitTimeout)))
	_, err := conn.Read(make([]byte, 1))
	must(t, err)
}
