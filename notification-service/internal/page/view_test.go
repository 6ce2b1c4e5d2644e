package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/page/pagetest"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/notification-service/internal/notification"
	mailpage "example.com/transactional-outbox/notification-service/internal/page"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers"
)

func TestTheListHasGroupsFiltersAndPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.get("/dead").Want(http.StatusOK, "There are no dead letters", "No dead letter matches", "no other client sees them")
	old := f.Add("panicked", 3*time.Hour, func(p *amqp.Publishing) { p.Type = "order.cancelled" })
	for i := range 51 {
		f.Add("malformed", time.Duration(i)*time.Second)
	}
	fresh := f.serve() // its list is not kept from before
	first := fresh.get("/dead").Want(http.StatusOK, "52 messages match", "By reason", "/dead?reason=malformed", "because of malformed", "Next rows")
	if rows := strings.Count(first.Body, `type="checkbox"`); rows != 50 || strings.Contains(first.Body, old) {
		t.Errorf("%d rows, and the oldest failure is not on a later page", rows)
	}
	_, next, _ := strings.Cut(first.Body, "/dead?after=")
	next, _, _ = strings.Cut(next, `"`)
	second := fresh.get("/dead?after="+next).Want(http.StatusOK, old, "First rows")
	if rows := strings.Count(second.Body, `type="checkbox"`); rows != 2 || strings.Contains(second.Body, "Next rows") {
		t.Errorf("%d rows on the second page", rows)
	}
	now := time.Now().UTC()
	for query, rows := range map[string]int{
		"reason=panicked": 1, "reason=none": 0, "key=order.cancelled": 1, "older=1h": 1, "id=" + old: 1, "id=nobody": 0,
		"since=" + now.Add(-time.Hour).Format("2006-01-02T15:04"): 50, "until=" + now.Add(-time.Hour).Format("2006-01-02T15:04:05"): 1,
		"reason=malformed&older=1h": 0,
	} {
		if a := fresh.get("/dead?" + query).Want(http.StatusOK); strings.Count(a.Body, `type="checkbox"`) != rows {
			t.Errorf("%s: %d rows, want %d", query, strings.Count(a.Body, `type="checkbox"`), rows)
		}
	}
	for query, hint := range map[string]string{
		"older=long": "not a duration", "since=then": "not a time", "since=2026-01-31T08:00&until=2026-01-31T08:00": "not after",
	} {
		fresh.get("/dead?"+query).Want(http.StatusUnprocessableEntity, hint)
	}
}

// TestReloadingDoesNotHoldTheQueue: the list is kept for some seconds.
func TestReloadingDoesNotHoldTheQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var taken atomic.Int64
	f.Hooks.Taken = func(rabbitmq.BrowsedMessage) { taken.Add(1) }
	f.AddMany(3)
	f.get("/dead")
	for range 3 {
		f.site.Get("ann", "/dead?reason=unknown")
	}
	if n := taken.Load(); n > 6 { // the test may need more than five seconds
		t.Errorf("%d messages were taken", n)
	}
}

// TestALongQueueIsReadInPart, and in the background: no request waits for it.
func TestALongQueueIsReadInPart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddMany(deadletter.MaxRead + 10)
	a := f.site.Get("ann", "/dead")
	if strings.Contains(a.Body, "is being read") && a.Refresh == "" {
		t.Errorf("the page does not load itself again:\n%s", a.Body)
	}
	f.get("/dead?reason=unknown").Want(http.StatusOK, "the first 10000 of 10010 messages", "Replay all 10000 that match")
}

func TestEqualDeadLettersAreOneRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 3 {
		f.Add("malformed", 0, func(p *amqp.Publishing) { p.MessageId, p.Headers["failed-at"] = "", "2026-01-31T08:00:00Z" })
	}
	a := f.get("/dead").Want(http.StatusOK, "3 messages match", "(no id)", "<bdi>3</bdi>")
	if rows := strings.Count(a.Body, `type="checkbox"`); rows != 1 {
		t.Errorf("%d rows", rows)
	}
	key := f.letters()[0].Key
	preview := f.preview("ann", url.Values{"selected": {"discard"}, "id": {key}}, "Discard 3 messages")
	if d := f.decide("ann", preview, 3); d.Done != 3 {
		t.Errorf("recorded is %+v", d)
	}
}

func TestAnUnknownKeyIsNotFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.get("/dead/x").Want(http.StatusNotFound, "not the key")
	f.get("/dead/0123456789abcdef0123456789abcdef").Want(http.StatusNotFound, "replayed or discarded")
}

// TestHostileValuesAreOnlyText: any publisher can write into the queue.
func TestHostileValuesAreOnlyText(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const markup = `"><script>alert(1)</script><img src=x onerror=alert(2)>` + "\u202egnp.exe\u200b\x1b[31m"
	nested := amqp.Table{"level": amqp.Table{"level": []any{markup, amqp.Table{"x": []byte{0xff, 0}}}}}
	for _, body := range []string{markup, strings.Repeat("<b>", 256<<10/3), "\xff\x00\x01binary", `{"order_id":"` + markup + `"}`} {
		f.Add("", 0, func(p *amqp.Publishing) {
			p.MessageId, p.Type, p.AppId, p.CorrelationId, p.ReplyTo = markup, markup, markup, markup, markup
			p.ContentType, p.ContentEncoding, p.Body = markup, markup, []byte(body)
			p.Headers = amqp.Table{
				"failure-code": markup, "failure-reason": markup + "\xff", "failed-at": markup, "retry-count": markup,
				"traceparent": markup, markup: markup, "nested": nested, "long": strings.Repeat("<i>", 10_000), "zero": "a\x00b",
			}
		})
	}
	safe := func(what string, a answer) {
		t.Helper()
		// A field of a form has the value as it is, and only there.
		text := regexp.MustCompile(`value="[^"]*"`).ReplaceAllString(a.Body, "")
		for _, bad := range []string{"<script>alert", "<img", "\u202e", "\u200b", "\x1b", "<b><b>", "<i><i>", "\xff"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q", what, bad)
			}
		}
		if len(a.Body) > 2<<20 {
			t.Errorf("%s has %d bytes", what, len(a.Body))
		}
	}
	list := f.get("/dead").Want(http.StatusOK, "alert(1)")
	safe("the list", list)
	safe("a filter", f.get("/dead?"+url.Values{"reason": {markup}, "key": {markup}, "id": {markup}, "older": {markup}}.Encode()).Want(http.StatusUnprocessableEntity))
	safe("a search", f.get("/find?q="+url.QueryEscape(markup)))
	filter := url.Values{"selected": {"replay"}}
	for _, l := range f.letters() {
		filter.Add("id", l.Key)
		safe("a detail", f.get("/dead/"+l.Key).Want(http.StatusOK, "hidden"))
		safe("a revealed detail", f.get("/dead/"+l.Key+"?reveal=1").Want(http.StatusOK, "nested"))
	}
	safe("a preview", f.post("ann", "/dead/preview", filter).Want(http.StatusOK, "Replay 4 messages"))
	all := f.preview("ann", url.Values{"all": {"discard"}, "reason": {markup}, "key": {markup}}, "Discard 4 messages")
	d := f.decide("ann", all, 4)
	if d.Done != 4 {
		t.Errorf("recorded is %+v", d)
	}
	safe("the decision", f.get("/audit/"+d.Decision.String()).Want(http.StatusOK, "Discard of 4"))
	safe("the decisions", f.get("/audit").Want(http.StatusOK, "--reason"))
}

func request(order uuid.UUID, version int) notification.Request {
	return notification.Request{ID: uuid.New(), First: true, Event: notification.Event{
		Key: notification.OrderCreated, OrderID: order, OrderVersion: version, CustomerEmail: "jane@example.com",
		ProductID: "sku123", Quantity: 1, Amount: 1, Currency: "GBP", OccurredAt: time.Now(),
	}}
}

func TestOneOrdersWayHasAllThatIsKnownHere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	order := uuid.New()
	newer, older, next := request(order, 2), request(order, 1), request(order, 3)
	f.record(newer)
	f.record(older)
	f.record(next)
	f.exec("UPDATE notifications SET status = 'sent', sent_at = now(), lease_token = NULL, lease_until = NULL WHERE message_id = $1", newer.ID)
	f.exec(`UPDATE notifications SET status = 'rejected', failure_reason = '550 <jane@example.com>', lease_token = NULL, lease_until = NULL
		WHERE message_id = $1`, next.ID)
	f.exec("INSERT INTO processed_messages VALUES ($1)", newer.ID)
	f.Add("recipient-refused", 0, func(p *amqp.Publishing) {
		p.MessageId, p.Body = next.ID.String(), fmt.Appendf(nil, `{"order_id": %q}`, order)
		p.Headers["traceparent"] = "00-2057d1905555159851ad17d795cfa26d-00f067aa0ba902b7-01"
	})
	key := f.key()
	by := operate.NewDecision("ben", operate.CLI, "--all")
	if _, err := f.log.Begin(t.Context(), by, operate.Replay, []string{next.ID.String()}); err != nil {
		t.Fatal(err)
	}
	page := f.get("/orders/"+order.String()).Want(http.StatusOK,
		newer.ID.String(), "order.created consumed", "order.created e-mailed", "remembers it, so a repeat",
		"No e-mail was sent for version 1, because version 3", "order.created rejected", "became a dead letter", "/dead/"+key,
		"http://jaeger.example/trace/2057d1905555159851ad17d795cfa26d", "ben decided: replay", "/audit/"+by.Decision.String(), "no recorded end",
		"http://orders.example/orders/"+order.String())
	page.WantNot("jane@")
	f.get("/orders/"+order.String()+"?reveal=1").Want(http.StatusOK, "jane@example.com")
	f.getAs("rob", "/orders/"+order.String()+"?reveal=1").Want(http.StatusForbidden)

	for query, to := range map[string]string{
		order.String(): "/orders/" + order.String(), next.ID.String(): "/orders/" + order.String(), strings.ToUpper(older.ID.String()): "/orders/" + order.String(),
		"2057d1905555159851ad17d795cfa26d": "/dead/" + key,
	} {
		if a := f.get("/find?q=" + query); a.Status != http.StatusSeeOther || a.Location != to {
			t.Errorf("%s leads to %d %s, want %s", query, a.Status, a.Location, to)
		}
	}
}

// TestWhatOnlyTheQueueKnowsIsFound: a malformed message is in no table.
func TestWhatOnlyTheQueueKnowsIsFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	order := uuid.NewString()
	f.Add("malformed", 0, func(p *amqp.Publishing) { p.MessageId, p.Body = "not a uuid", []byte(`{"order_id":"`+order+`"}`) })
	key := f.key()
	f.Add("malformed", 0, func(p *amqp.Publishing) { p.MessageId = "twice" })
	f.Add("panicked", 0, func(p *amqp.Publishing) { p.MessageId = "twice" })
	for query, to := range map[string]string{"not a uuid": "/dead/" + key, order: "/orders/" + order} {
		if a := f.get("/find?q=" + url.QueryEscape(query)); a.Status != http.StatusSeeOther || a.Location != to {
			t.Errorf("%s leads to %d %s, want %s", query, a.Status, a.Location, to)
		}
	}
	f.get("/orders/"+order).Want(http.StatusOK, "became a dead letter", "/dead/"+key)
	f.get("/find?q=twice").Want(http.StatusOK, "2 dead letters have this id", "malformed, failed", "panicked, failed")
	nobody := uuid.NewString()
	f.get("/find?q="+nobody).Want(http.StatusNotFound, "Nothing here has this id", "http://orders.example/find?q="+nobody)
	f.get("/find?q=0123456789abcdef0123456789abcdef").Want(http.StatusNotFound, "does not store the ids of traces", "jaeger.example/trace/0123")
	f.get("/find?q=").Want(http.StatusUnprocessableEntity, "is empty")
	f.get("/find?q="+strings.Repeat("x", 300)).Want(http.StatusUnprocessableEntity, "300 bytes")
	f.get("/orders/x").Want(http.StatusNotFound, "not the id of an order")
	f.get("/orders/"+nobody).Want(http.StatusNotFound, "Nothing of this order is known here")
}

// TestWithoutTheBrokerThePageSaysSo within three seconds, and shows what the database knows.
func TestWithoutTheBrokerThePageSaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	order := uuid.New()
	f.record(request(order, 1))
	f.AddMany(1)
	key := f.key()
	preview := f.preview("ann", url.Values{"selected": {"discard"}, "id": {key}})
	proxy, through := servers.ProxyFor(t, f.URL)
	proxy.Close()
	f.URL = through
	f = f.serve()
	f.get("/dead").Want(http.StatusServiceUnavailable, "cannot be read now", "AMQP_URL")
	f.get("/dead/"+key).Want(http.StatusServiceUnavailable, "cannot be read now")
	f.post("ann", "/dead/preview", url.Values{"selected": {"discard"}, "id": {key}}).Want(http.StatusServiceUnavailable, "cannot be read now")
	f.get("/orders/"+order.String()).Want(http.StatusOK, "order.created consumed", "not known which dead letters", "cannot be read now")
	f.post("ann", "/dead/decide", url.Values{"preview": {preview}, "count": {"1"}}).Want(http.StatusNotFound) // of another process
}

// TestADecisionWithoutTheBrokerChangesNothing.
func TestADecisionWithoutTheBrokerChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	proxy, through := servers.ProxyFor(t, f.URL)
	f.URL = through
	f = f.serve()
	f.AddMany(1)
	preview := f.preview("ann", url.Values{"all": {"discard"}, "reason": {"unknown"}})
	proxy.Refuse(true)
	proxy.Cut()
	a := f.post("ann", "/dead/decide", url.Values{"preview": {preview}, "count": {"1"}}).Want(http.StatusSeeOther)
	f.awaitEnd(a.Location).Want(http.StatusOK, "Nothing was changed", "0 of 1 messages were changed")
	if len(f.decisions()) != 0 {
		t.Errorf("recorded are %+v", f.decisions())
	}
}

// TestWithoutTheDatabaseNothingIsDecided: the record comes first.
func TestWithoutTheDatabaseNothingIsDecided(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	proxy, through := servers.ProxyFor(t, f.dbURL)
	f.dbURL = through
	f = f.serve()
	f.AddMany(2)
	preview := f.preview("ann", url.Values{"all": {"replay"}, "reason": {"unknown"}})
	proxy.Refuse(true)
	proxy.Cut()
	f.post("ann", "/dead/decide", url.Values{"preview": {preview}, "count": {"2"}}).Want(http.StatusSeeOther)
	f.get("/orders/"+uuid.NewString()).Want(http.StatusServiceUnavailable, "The database does not answer")
	f.get("/audit").Want(http.StatusServiceUnavailable, "The database does not answer")
	f.get("/dead").Want(http.StatusOK, "2 messages match")
	if left, sent := f.Contents(2, 0); len(left) != 2 || len(sent) != 0 {
		t.Errorf("left are %v, and sent %v", left, sent)
	}
}

// TestAClosedTabDoesNotStopADecision.
func TestAClosedTabDoesNotStopADecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddMany(150)
	preview := f.preview("ann", url.Values{"all": {"discard"}, "reason": {"unknown"}})
	ctx, closeTab := context.WithCancel(t.Context())
	f.Hooks.Removing = func(rabbitmq.BrowsedMessage) { closeTab() }
	form := url.Values{"preview": {preview}, "count": {"150"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.site.URL+"/dead/decide", strings.NewReader(form.Encode()))
	f.Check(err)
	request.SetBasicAuth("ann", pagetest.Password)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if response, err := http.DefaultClient.Do(request); err == nil {
		_ = response.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		all := f.decisions()
		if len(all) == 1 && all[0].Done == 150 && all[0].Unfinished == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("recorded are %+v", all)
		}
	}
}

func TestAListSaysWhyMessagesAreMissing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		read, total int
		want        string
	}{
		"all":                          {2, 2, ""},
		"more have come meanwhile":     {2, 1, ""},
		"the queue is too long":        {deadletter.MaxRead, 10_010, "the first 10000 of 10010"},
		"another client has taken one": {1, 2, "1 of 2 messages were not read, because another client"},
		"another client has taken all": {0, 1, "1 of 1"},
	}
	for name, test := range tests {
		got := mailpage.Unread(deadletter.Snapshot{Letters: make([]deadletter.Entry, test.read), Total: test.total})
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
