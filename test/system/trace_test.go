package system

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"example.com/transactional-outbox/test/env/mailserver"
	"example.com/transactional-outbox/test/env/services"
)

// spanCollector receives the spans that the services export.
type spanCollector struct {
	*testing.T
	server *httptest.Server
	mu     sync.Mutex
	spans  []*otlp.Span
}

func collectSpans(t *testing.T) *spanCollector {
	t.Helper()
	c := &spanCollector{T: t}
	c.server = httptest.NewServer(http.HandlerFunc(c.receive))
	t.Cleanup(c.server.Close)
	return c
}

// settings make a service export its spans soon.
func (c *spanCollector) settings() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.server.URL, "OTEL_BSP_SCHEDULE_DELAY=50"}
}

func (c *spanCollector) receive(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil {
		c.Errorf("the collector cannot read a request: %v", err)
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

// await waits for n spans with a name, and returns all with that name.
func (c *spanCollector) await(name string, n int) (found []*otlp.Span) {
	c.Helper()
	if !eventually(func() bool { found = c.named(name); return len(found) >= n }) {
		c.Fatalf("%d spans %q, want %d", len(found), name, n)
	}
	return found
}

func (c *spanCollector) named(name string) (found []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name {
			found = append(found, s)
		}
	}
	return found
}

func attributeOf(s *otlp.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// TestOneTraceFromTheRequestToTheEmail sends one order through a retry queue, a refusal of the mail
// server, and a replay.
func TestOneTraceFromTheRequestToTheEmail(t *testing.T) {
	t.Parallel()
	s, c := newSystem(t), collectSpans(t)
	s.mail.SetFault(mailserver.Fault{Rcpt: func(_ string, times int) string {
		switch times {
		case 1:
			return notNow
		case 2:
			return noSuchTo
		}
		return ""
	}})
	mend := s.refuse("false")
	orders := s.runOrders(c.settings()...)
	s.runNotifications(c.settings()...).awaitReadyz()
	copies := s.recordExchanges(retryPrefix + "200ms")
	s.place(orders)
	copies.await(1)
	mend()
	s.awaitCount(s.notificationsDB, 1, failedCount)
	s.runCommand(services.Notifications, "outbox", "replay", "--all")
	s.awaitCount(s.notificationsDB, 1, sentCount)

	request := c.await("POST /orders", 1)[0]
	publish := c.await("publish outbox.events", 1)[0]
	deliveries := c.await("process notification-service", 2)
	emails := c.await("publish "+s.mail.Address(), 3)
	for _, span := range slices.Concat([]*otlp.Span{publish}, deliveries, emails) {
		if string(span.GetTraceId()) != string(request.GetTraceId()) {
			t.Errorf("%q is in trace %x, the request in %x", span.GetName(), span.GetTraceId(), request.GetTraceId())
		}
	}
	outcomes := map[string]int{}
	for _, d := range deliveries {
		outcomes[attributeOf(d, "consumer.outcome")]++
		if string(d.GetParentSpanId()) != string(publish.GetSpanId()) {
			t.Errorf("the parent of a delivery is %x, want %x", d.GetParentSpanId(), publish.GetSpanId())
		}
	}
	for _, e := range emails {
		outcomes[attributeOf(e, "outbox.outcome")]++
	}
	if outcomes["retried"] == 0 || outcomes["handled"] != 1 || outcomes["retry"] != 1 || outcomes["failed"] != 1 || outcomes["published"] != 1 {
		t.Errorf("the outcomes are %v", outcomes)
	}
	if got := attributeOf(publish, "outbox.outcome"); got != "published" {
		t.Errorf("outbox.outcome is %q", got)
	}
}
