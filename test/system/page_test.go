package system

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// insertFailedSQL inserts a failed event that no consumer can read.
const insertFailedSQL = `
WITH event AS (
  INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type)
  SELECT gen_random_uuid(), current, 'order', gen_random_uuid()::text, 1, 'order.created', '{}', 'application/json' FROM outbox_ring
  RETURNING *
)
INSERT INTO outbox_queue (id, seq, slot, aggregate, aggregate_id, version, topic, bytes,
                          available_at, retry_count, failure_code, failure_reason, failed_at)
SELECT id, seq, slot, aggregate, aggregate_id, version, topic, 2, 'infinity', 20, 'refused', 'a queue refused it', now()
FROM event RETURNING id::text`

// TestThePageNeedsOnlyTheGrantedRights opens each page, and decides there. The service is connected
// as its role, and its log must not name a missing right.
func TestThePageNeedsOnlyTheGrantedRights(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	orders := s.runOrders()
	orders.awaitLog("connected to the broker")
	s.runNotifications().awaitReadyz()
	order := s.place(orders)
	s.awaitCount(s.ordersDB, 1, "SELECT count(*) FROM outbox_published")
	published := queryValue[string](s, s.ordersDB, "SELECT id::text FROM outbox_published")
	trace := queryValue[string](s, s.ordersDB, "SELECT split_part(traceparent, '-', 2) FROM outbox_events")

	// Without the right to a sequence, PostgreSQL says that its last value is unknown.
	orders.wantPage("/", "committed</span>\n"+`<span class="count" data-count>1</span>`, "published</span>\n"+`<span class="count" data-count>1</span>`)
	orders.wantPage("/orders/"+order, published)
	for _, id := range []string{order, published, trace} {
		orders.wantPage("/find?q="+id, "Order "+order)
	}

	for _, action := range []string{"replay", "discard"} {
		id := queryValue[string](s, s.ordersDB, insertFailedSQL)
		orders.wantPage("/failed?reason=refused&topic=order.created&event="+id+"&since=2026-01-31T08:00", id)
		orders.wantPage("/failed/"+id+"?reveal=1", "a queue refused it")
		decision := orders.decideOnPage("/failed", url.Values{"all": {action}, "event": {id}}, id)
		orders.wantPage("/audit", decision)
		orders.wantPage("/find?q="+decision, id)
	}
	s.wantDeadLetterCount(awaitTimeout, 1) // the replayed event, which nobody can read
}

// wantPage waits until a page has the texts.
func (s *service) wantPage(path string, texts ...string) {
	s.Helper()
	s.awaitAnswer(path, func() (*http.Response, error) { return http.Get("http://" + s.opsAddress() + path) }, texts...)
}

func (s *service) awaitAnswer(path string, ask func() (*http.Response, error), texts ...string) string {
	s.Helper()
	status, body := 0, ""
	lacks := func(text string) bool { return !strings.Contains(body, text) }
	if !eventually(awaitTimeout, func() bool {
		response, err := ask()
		must(s.T, err)
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		must(s.T, err)
		status, body = response.StatusCode, html.UnescapeString(string(text))
		return status == http.StatusOK && response.Header.Get("Refresh") == "" && !slices.ContainsFunc(texts, lacks)
	}) {
		s.Fatalf("%s: status %d, want a page with %q:\n%s", path, status, texts, body)
	}
	return body
}

var previewField = regexp.MustCompile(`name="preview" value="([^"]+)"`)

// decideOnPage makes a preview of one item and decides about it. The page of the decision must have
// the text. It returns the id of the decision.
func (s *service) decideOnPage(list string, form url.Values, text string) string {
	s.Helper()
	address := "http://" + s.opsAddress() + list
	preview := s.awaitAnswer(list+"/preview", func() (*http.Response, error) { return http.PostForm(address+"/preview", form) }, "preview expires")
	id := previewField.FindStringSubmatch(preview)
	if id == nil {
		s.Fatalf("no preview in\n%s", preview)
	}
	decision := ""
	response, err := http.PostForm(address+"/decide", url.Values{"preview": {id[1]}, "count": {"1"}})
	must(s.T, err)
	must(s.T, response.Body.Close())
	if _, found, ok := strings.Cut(response.Request.URL.Path, "/audit/"); ok {
		decision = found
	}
	s.wantPage("/audit/"+decision, "Done: 1", text)
	return decision
}
