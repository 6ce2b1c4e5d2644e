package systemtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spanCollector takes what the services export.
type spanCollector struct {
	*testing.T
	server *httptest.Server
	mu     sync.Mutex
	spans  []*otlp.Span
}

func collectSpans(t *testing.T) *spanCollector {
	t.Helper()
	c := &spanCollector{T: t}
	c.server = httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(c.server.Close)
	return c
}

// settings send the spans soon.
func (c *spanCollector) settings() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.server.URL, "OTEL_BSP_SCHEDULE_DELAY=50"}
}

func (c *spanCollector) take(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil {
		c.Errorf("the collector got what it cannot read: %v", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
}

// await waits until so many spans of a name were taken, and returns them in the order
// in which they began.
func (c *spanCollector) await(name string, n int) (found []*otlp.Span) {
	c.Helper()
	deadline := time.Now().Add(patience)
	for tick := time.Tick(20 * time.Millisecond); ; <-tick {
		found = nil
		c.mu.Lock()
		for _, s := range c.spans {
			if s.GetName() == name {
				found = append(found, s)
			}
		}
		c.mu.Unlock()
		if len(found) >= n {
			return found
		}
		if time.Now().After(deadline) {
			c.Fatalf("%d spans %q, want %d", len(found), name, n)
		}
	}
}

func attributeOf(s *otlp.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// TestOneTraceFromTheRequestToTheEmail leads one order through a retry, the dead letters
// and a replay.
func TestOneTraceFromTheRequestToTheEmail(t *testing.T) {
	t.Parallel()
	s, c := newSystem(t), collectSpans(t)
	s.mail.refuse("guest@example.com", func(try int) error {
		return []error{refused(451, always)(1), refused(550, always)(1), nil}[try-1]
	})
	orders := s.runOrders(c.settings()...)
	s.runNotifications(append(c.settings(), quick)...).await("taking messages")
	s.place(orders)
	s.awaitCount(s.notifications, 1, "SELECT count(*) FROM notifications WHERE status = 'rejected'")
	c.await("process notification-service", 2) // both ended, so the dead letter is there
	s.deadLetterCommand("replay", "--all")
	s.awaitCount(s.notifications, 1, sent)

	request := c.await("POST /orders", 1)[0]
	publish := c.await("publish outbox.events", 1)[0]
	tries := c.await("process notification-service", 3)
	for _, span := range append(append([]*otlp.Span{publish}, tries...), c.await("send e-mail", 3)...) {
		if string(span.GetTraceId()) != string(request.GetTraceId()) {
			t.Errorf("%q is in trace %x, the request in %x", span.GetName(), span.GetTraceId(), request.GetTraceId())
		}
	}
	outcomes := map[string]int{}
	for _, try := range tries {
		outcomes[attributeOf(try, "consumer.outcome")]++
		if string(try.GetParentSpanId()) != string(publish.GetSpanId()) {
			t.Errorf("a try is below %x, want %x", try.GetParentSpanId(), publish.GetSpanId())
		}
	}
	for _, outcome := range []string{"retry", "dlq", "success"} {
		if outcomes[outcome] != 1 {
			t.Errorf("outcomes %v, want one %s", outcomes, outcome)
		}
	}
	if got := attributeOf(publish, "outbox.outcome"); got != "published" {
		t.Errorf("outbox.outcome is %q", got)
	}
}
