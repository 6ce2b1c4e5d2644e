package page_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/test/servers"
)

const trace = "0af7651916cd43dd8448eb211c80319c"

// wantOrder checks that the texts are in the page, one after the other.
func wantOrder(t *testing.T, page string, texts ...string) {
	t.Helper()
	rest := page
	for _, text := range texts {
		var found bool
		if _, rest, found = strings.Cut(rest, text); !found {
			t.Fatalf("no %q after the texts before it, in\n%s", text, page)
		}
	}
}

// TestTheWayOfAnOrder: the event failed, ann replayed it, and it is published. The next one waits.
func TestTheWayOfAnOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, event := f.place(order.Request{CustomerEmail: "jane@example.com"})
	f.exec("UPDATE outbox_events SET traceparent = $1", "00-"+trace+"-b7ad6b7169203331-01")
	if _, err := order.NewService(f.db, func() {}).Confirm(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	f.Get("rob", "/orders/"+id.String()).Want(200, "order.created (version 1): committed", "order.confirmed (version 2): not published yet")

	f.exec("UPDATE outbox_queue SET failed_at = now(), available_at = 'infinity', failure_code = 'refused', failure_reason = 'full', retry_count = 20 WHERE id = $1", event)
	wantOrder(t, f.Get("rob", "/orders/"+id.String()).Want(200).Main(), "version 1): committed", "version 1): failed after 20 attempts", "refused. full", "/failed/"+event.String())

	by := operate.NewDecision("ann", operate.CLI, operate.ByIDs)
	if _, err := operate.New(f.db.Pool()).Replay(t.Context(), by, []uuid.UUID{event}); err != nil {
		t.Fatal(err)
	}
	f.publish(event)
	page := f.Get("rob", "/orders/"+id.String()).Want(200, "http://jaeger.example/trace/"+trace)
	wantOrder(t, page.Main(), "version 1): committed", "version 1): replayed by an operator", "ann", "/audit/"+by.Decision.String(),
		"version 1): published", "version 2): not published yet")
	page.WantNot("jane@")
	f.Get("ann", "/orders/"+id.String()).Want(200, "?reveal=1").WantNot("jane@")
	f.Get("ann", "/orders/"+id.String()+"?reveal=1").Want(200, "jane@example.com")
	f.Get("rob", "/orders/"+id.String()+"?reveal=1").Want(403)
	f.Get("ann", "/orders/"+uuid.NewString()).Want(404, "There is no order")
	f.Get("ann", "/orders/12").Want(404, "not the id of an order")
}

// TestTheWaySaysWhatAnEventWaitsFor in each state that is not an end.
func TestTheWaySaysWhatAnEventWaitsFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, event := f.place(order.Request{})
	for set, want := range map[string]string{
		"available_at = now() + interval '1 hour', retry_count = 3, failure_code = 'refused'": "3 failed attempts",
		"available_at = 'infinity', halted = true, failure_code = 'unroutable'":               "its topic is paused",
		"available_at = 'infinity', halted = false, failure_code = NULL":                      "waits for an older event of the order",
	} {
		f.exec("UPDATE outbox_queue SET "+set+" WHERE id = $1", event)
		f.Get("rob", "/orders/"+id.String()).Want(200, want)
	}
	f.exec("UPDATE outbox_queue SET available_at = now(), halted = false, retry_count = 0, failure_code = NULL")
	f.exec("INSERT INTO outbox_claims VALUES (gen_random_uuid(), 'worker 7', now() + interval '1 minute', ARRAY[$1::uuid])", event)
	f.Get("rob", "/orders/"+id.String()).Want(200, "being published", "worker 7")
	f.exec("UPDATE outbox_queue SET available_at = 'infinity', failed_at = now(), failure_code = 'too_large' WHERE id = $1", event)
	if _, err := operate.New(f.db.Pool()).Discard(t.Context(), operate.NewDecision("ann", operate.CLI, operate.ByIDs), []uuid.UUID{event}); err != nil {
		t.Fatal(err)
	}
	f.Get("rob", "/orders/"+id.String()).Want(200, "failed after 0 attempts", "discarded", "too_large")
}

func TestFindLeadsToTheOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, event := f.place(order.Request{})
	f.exec("UPDATE outbox_events SET traceparent = $1", "00-"+trace+"-b7ad6b7169203331-01")
	by := operate.NewDecision("ann", operate.CLI, operate.ByIDs)
	if _, err := f.log.Begin(t.Context(), by, operate.Republish, []string{"x"}); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		id.String(), " " + strings.ToUpper(id.String()) + " ", event.String(), trace, strings.ToUpper(trace), "00-" + trace + "-b7ad6b7169203331-01",
	} {
		if a := f.Get("rob", "/find?q="+url.QueryEscape(query)).Want(303); a.Location != "/orders/"+id.String() {
			t.Errorf("%q leads to %s", query, a.Location)
		}
	}
	if a := f.Get("rob", "/find?q="+by.Decision.String()).Want(303); a.Location != "/audit/"+by.Decision.String() {
		t.Errorf("a decision leads to %s", a.Location)
	}
	f.Get("rob", "/find?q=").Want(422, "The field “Find” is empty")
	for _, query := range []string{uuid.NewString(), strings.Repeat("f", 32), "anything", "\"><script>alert(1)</script>", "\xff\x00"} {
		f.Get("rob", "/find?q="+url.QueryEscape(query)).Want(404, "Nothing has this id")
	}
}

func TestPersonalDataIsShownOnlyWhenAskedAndLogged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.fail(1, "order.created")[0]
	f.Get("ann", "/failed/"+id).Want(200, "?reveal=1", "application/json").WantNot("jane@")
	if lines := logged.With(id); len(lines) != 0 {
		t.Errorf("logged %q", lines)
	}
	f.Get("ann", "/failed/"+id+"?reveal=1").Want(200, `"customer_email": "jane@example.com"`)
	if lines := logged.With(id); len(lines) != 1 || !strings.Contains(lines[0], `"operator":"ann"`) {
		t.Errorf("logged %q", lines)
	}
	f.Get("ann", "/failed/"+uuid.NewString()).Want(404, "There is no event")
	f.Get("ann", "/failed/12").Want(404, "not the id of an event")
}

// hostile is text that a publisher, a broker or a customer may send.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>' OR 1=1 -- ` + "\u202egnp.exe"

var inputs = regexp.MustCompile(`<input [^>]*>`)

func TestHostileValuesAreText(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, event := f.place(order.Request{CustomerEmail: hostile + "@example.com"})
	long := strings.Repeat("<b>", 80_000) // 240 KiB
	f.exec(`UPDATE outbox_events SET payload = convert_to(jsonb_build_object('customer_email', $1::text, 'text', $2::text)::text, 'UTF8'),
		traceparent = $3, headers = json_build_object($1::text, $1::text)`, hostile, long, hostile[:60])
	f.exec(`UPDATE outbox_queue SET failed_at = now(), available_at = 'infinity', failure_code = 'refused', failure_reason = $1`, hostile+strings.Repeat("<i>", 200))
	by := operate.NewDecision(hostile, operate.Page, hostile)
	if _, err := f.log.Begin(t.Context(), by, operate.Republish, []string{event.String(), hostile}); err != nil {
		t.Fatal(err)
	}
	pages := []string{
		"/failed", "/failed?topic=" + url.QueryEscape(hostile), "/failed?older=" + url.QueryEscape(hostile), "/failed?after=" + url.QueryEscape(hostile),
		"/failed/" + event.String() + "?reveal=1", "/failed/" + url.PathEscape(hostile), "/orders/" + id.String() + "?reveal=1",
		"/orders/" + url.PathEscape(hostile), "/audit", "/audit/" + by.Decision.String(), "/find?q=" + url.QueryEscape(hostile),
	}
	answers := []string{f.Post("ann", "/failed/preview", url.Values{"selected": {"replay"}, "id": {event.String()}, "topic": {hostile}}).Want(200).Body}
	for _, path := range pages {
		answers = append(answers, f.Get("ann", path).Body)
	}
	for i, body := range answers {
		body = inputs.ReplaceAllString(body, "") // a form keeps what the user has written
		for _, raw := range []string{"<script>alert", "<img src=x", "<b><b>", "<i><i>", "\u202e"} {
			if strings.Contains(body, raw) {
				t.Errorf("answer %d has %q:\n%.2000s", i, raw, body)
			}
		}
	}
}

// TestWithoutTheDatabaseEachPageSaysSo within the time of a query.
func TestWithoutTheDatabaseEachPageSaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.fail(2, "order.created")
	proxy, address := servers.ProxyFor(t, f.dbURL)
	f.Site = serve(t, address)
	decision := f.preview("ann", url.Values{"all": {"replay"}, "topic": {"order.created"}})
	for name, fault := range []func(){
		proxy.Stall,
		func() { proxy.Refuse(true); proxy.Cut() },
	} {
		fault()
		for _, path := range []string{"/failed", "/failed/" + ids[0], "/orders/" + ids[0], "/find?q=" + ids[0], "/audit"} {
			began := time.Now()
			f.Get("ann", path).Want(http.StatusServiceUnavailable, "The database does not answer")
			t.Logf("fault %d, %s: %s", name, path, time.Since(began))
		}
	}
	a := f.Post("ann", "/failed/decide", decision).Want(303)
	f.AwaitEnd(a.Location) // it must not succeed after the repair
	proxy.Resume()
	proxy.Refuse(false)
	f.wantStatus("failed", ids)
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if b := f.Get("ann", a.Location); b.Status == 200 && strings.Contains(b.Body, "Nothing was changed") || time.Now().After(deadline) {
			b.Want(200, "Nothing was changed")
			break
		}
	}
}
