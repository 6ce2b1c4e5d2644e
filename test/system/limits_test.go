package system

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestOverloadIsRefusedAndTheRelayContinues has many more clients than the API serves at a
// time, and than there are connections to the database.
func TestOverloadIsRefusedAndTheRelayContinues(t *testing.T) {
	t.Parallel()
	const enough = 100
	s := newSystem(t)
	s.declareBoundQueue("all", "#", nil)
	orders := s.runOrders("HTTP_MAX_IN_FLIGHT=32")
	clients := s.startLoad(500, orders)
	if !eventually(func() bool { return queryValue[int](s, s.ordersDB, publishedCount) >= enough }) {
		t.Error("the relay does not publish during the flood")
	}
	orders.awaitReadyz() // the service is ready during the flood
	clients.stop()
	placed, refused := clients.statuses[http.StatusCreated], clients.statuses[http.StatusServiceUnavailable]
	// On a slow machine, the server also closes connections of which it has read no request for 5 s.
	unread := clients.statuses[0]
	delete(clients.statuses, 0)
	if placed < enough || refused == 0 || len(clients.statuses) != 2 {
		t.Errorf("the statuses are %v, want some 201, some 503 and no other", clients.statuses)
	}
	// A 503 can have another reason: on a slow machine, the database may take too long.
	if got := orders.metric("http_requests_refused_total", "by", "in_flight"); got == 0 || got > float64(refused) {
		t.Errorf("%v are counted as refused, of %v", got, clients.statuses)
	}
	committed := queryValue[int](s, s.ordersDB, "SELECT count(*) FROM orders")
	if committed < placed || committed > placed+refused+unread {
		t.Errorf("%d orders, and %v", committed, clients.statuses)
	}
	s.awaitCount(s.ordersDB, committed, publishedCount)
	s.place(orders)
}

// TestLargeMessagesFitIntoTheMemory fills the prefetch with messages of 1 MB, and some that are too
// large, in a service with the memory of its container. They arrive while the database takes its
// time.
//
//nolint:paralleltest // a quarter of a gigabyte goes through the broker
func TestLargeMessagesFitIntoTheMemory(t *testing.T) {
	const large, tooLarge = 250, 6
	s := newSystem(t)
	running := s.startConsumer("GOMEMLIMIT=200MiB")
	events := newEvents(1 + large)
	s.publish(events[0].publishing()) // after it, messages no longer come one by one
	s.awaitCount(s.notificationsDB, 1, sentCount)
	s.exec(s.notificationsDB, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$;
		CREATE TRIGGER slow BEFORE INSERT ON order_progress EXECUTE FUNCTION slow()`)
	for _, e := range newEvents(tooLarge) {
		s.publish(e.padded(15 << 20))
	}
	for _, e := range events[1:] {
		s.publish(e.padded(1_000_000))
	}
	s.takeMessages(deadLetterQueue, tooLarge)
	s.awaitCount(s.notificationsDB, len(events), sentCount)
	running.wantPeakMemory()
	s.wantOneEmailEach(events...)
}

// padded returns the event with a body that is larger than any event of order-service.
func (e orderEvent) padded(size int) amqp.Publishing {
	m := e.publishing()
	padding := fmt.Sprintf(`"padding": %q, "product_id"`, strings.Repeat("x", size))
	m.Body = bytes.Replace(m.Body, []byte(`"product_id"`), []byte(padding), 1)
	return m
}

// wantPeakMemory wants the process never to have used more memory than its container has.
func (s *service) wantPeakMemory() {
	s.Helper()
	const most = 256 << 10 // KiB
	used := s.peakMemory()
	s.Logf("it used up to %d MiB", used>>10)
	if used > most {
		s.Errorf("it used up to %d MiB, want at most %d", used>>10, most>>10)
	}
}

var peakMemoryPattern = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory returns the most memory that the process has used, in KiB.
func (s *service) peakMemory() int {
	s.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID))
	must(s.T, err)
	match := peakMemoryPattern.FindSubmatch(status)
	if match == nil {
		s.Fatalf("no peak in %s", status)
	}
	used, err := strconv.Atoi(string(match[1]))
	must(s.T, err)
	return used
}
