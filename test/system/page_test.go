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

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/operate"
)

// TestThePageNeedsOnlyTheGrantedRights opens each page of both services, and makes each decision
// there. The services are connected as their roles, and their logs must not name a missing right.
func TestThePageNeedsOnlyTheGrantedRights(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	orders, notifications := s.runOrders(), s.runNotifications()
	notifications.awaitReadyz()
	order := s.place(orders)
	s.awaitCount(s.notificationsDB, 1, sentCount)
	s.openEveryPage(orders, s.ordersDB, order)
	s.openEveryPage(notifications, s.notificationsDB, order)
	// The replayed event has no content. Its consumer says so on the page of notification-service.
	notifications.wantPage("/", "Order events that could not be handled are dead letters: 1.", "notification-service dlq list")
}

func (s *system) openEveryPage(of *service, db *pgxpool.Pool, order string) {
	s.Helper()
	published := queryValue[string](s, db, "SELECT id::text FROM outbox_done WHERE status = 'published'")
	trace := queryValue[string](s, db, "SELECT split_part(traceparent, '-', 2) FROM outbox_events")
	topic := queryValue[string](s, db, "SELECT topic FROM outbox_events")
	failed, discarded := s.appendFailed(db), s.appendFailed(db)
	of.wantPage("/", "order.created failed: refused", "done")
	for _, status := range operate.Statuses() {
		of.wantPage("/list?status="+status+"&topic="+topic, "newest first")
	}
	of.wantPage("/list?reason=refused", failed, discarded)
	of.wantPage("/event?payload=1&id="+published, published, "order_id")
	for _, id := range []string{order, published, trace} {
		of.wantPage("/find?q="+id, "Order "+order, "taken by ")
	}
	of.send("/find", url.Values{"text": {order}}, published)
	of.decide("replay", url.Values{"id": {failed}}, "replayed by anonymous")
	of.decide("discard", url.Values{"topic": {"order.created"}, "reason": {"refused"}}, "Nothing that failed matches any more")
	of.decide("pause", url.Values{"topic": {topic}, "why": {"a test"}}, topic+" has been paused since", "a test")
	of.decide("resume", url.Values{"topic": {topic}}, "Paused ")
	of.wantPage("/topics", "Paused ")
	of.wantPage("/decisions", "find", "replay", "discard", "pause", "resume")
}

// wantPage waits until a page has the texts.
func (s *service) wantPage(path string, texts ...string) (body string) {
	s.Helper()
	if !eventually(func() bool {
		var status int
		status, body = s.getOps(path)
		return status == http.StatusOK && has(body, texts)
	}) {
		s.Fatalf("%s: want %q in\n%s", path, texts, body)
	}
	return body
}

// send sends a form. The answer, or the page that it leads to, must have the texts.
func (s *service) send(path string, form url.Values, texts ...string) {
	s.Helper()
	response, err := http.PostForm("http://"+s.opsAddress()+path, form)
	must(s.T, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(s.T, err)
	if body := string(text); response.StatusCode != http.StatusOK || !has(body, texts) {
		s.Fatalf("%s: status %d, want %q in\n%s", path, response.StatusCode, texts, body)
	}
}

var (
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
	tags        = regexp.MustCompile(`<[^>]*>`)
)

// has reports whether a page has all texts, as people read it.
func has(body string, texts []string) bool {
	read := html.UnescapeString(tags.ReplaceAllString(body, ""))
	return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(read, text) })
}

// decide opens the form of a decision and sends it.
func (s *service) decide(action string, fields url.Values, texts ...string) {
	s.Helper()
	fields.Set("action", action)
	for _, field := range hiddenField.FindAllStringSubmatch(s.wantPage("/decide?"+fields.Encode(), "Cancel"), -1) {
		fields.Set(field[1], html.UnescapeString(field[2]))
	}
	s.send("/decide", fields, texts...)
}
