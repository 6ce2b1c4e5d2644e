package page_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/page"
)

// TestTheOverviewBeginsWithWhatIsWrong: each problem is a sentence with the last error, and leads
// to its events.
func TestTheOverviewBeginsWithWhatIsWrong(t *testing.T) {
	t.Parallel()
	var health error
	var more []page.Problem
	s := newSite(t, page.Config{
		Name: "shop", Operators: []string{page.Anonymous}, Destination: "the broker", Health: func() error { return health },
		Problems: func(context.Context) []page.Problem { return more }, Runbook: page.Runbook{Paused: "https://book/#paused", Failed: "book#failed"},
	})
	s.get("", "").want(http.StatusOK, "All is well", "Nothing is wrong", "due fornone").wantNot(`class="problem"`)

	health, more = errors.New("the relay waits for a session"), []page.Problem{{Text: "2 dead letters.", Command: "shop dlq list"}}
	s.append(outbox.Event{Topic: "late.created", Payload: []byte("1")}, outbox.Event{Topic: "paused.created", Payload: []byte("1")})
	s.exec("UPDATE outbox_queue SET available_at = now() - interval '5 minutes' WHERE topic = 'late.created'")
	s.exec("UPDATE outbox_queue SET available_at = 'infinity', halted = true, due_since = now() - interval '7 minutes' WHERE topic = 'paused.created'")
	s.exec("INSERT INTO outbox_topics (topic, until, pause, reason, since) VALUES ('paused.created', now() + interval '1 minute', 9, 'no queue', now() - interval '3 hours')")
	s.failed(3, "order.created", "refused")
	home := s.get("", "").want(http.StatusOK,
		"5 problems · shop", "The relay waits for a session.", "The topic paused.created is paused because the broker does not take its events.",
		"1 event waits", "(3 h ago)", "no queue", "3 events of the topic order.created failed: refused.", "550 <a***@example.com> is not known",
		"The oldest event that is due has not been sent yet. Since", "(5 min ago)", "2 dead letters.", "shop dlq list", "What to do: book#failed",
		"the oldest that is not done, due for7 min",
	).wantNot("ann@")
	for link, want := range map[string]string{"its events": "paused.created has been paused since", "these events": "refused", "the oldest events that wait": "late.created", "resume it": "Resume?", "replay them": "Replay?"} {
		home.follow("", link).want(http.StatusOK, want)
	}
	if !strings.Contains(home.text, `<a href="https://book/#paused">what to do</a>`) {
		t.Error("the runbook is not linked")
	}
	// Each number leads to its list.
	for _, number := range []string{"2", "1", "0", "7 min", "3", "list"} {
		home.follow("", number).want(http.StatusOK)
	}
	s.exec("INSERT INTO outbox_topics (topic, until, pause, reason, operator) VALUES ('*', 'infinity', 0, 'a restore', 'ben')")
	s.get("", "").want(http.StatusOK, "Every topic is paused by ben. Nothing is sent.", "a restore")
	s.get("", "list?status=pending").want(http.StatusOK, "Everything has been paused since", "by ben: a restore")
}

// TestPagesWithoutAFormReload by themselves, unless they are paused.
func TestPagesWithoutAFormReload(t *testing.T) {
	t.Parallel()
	s := newSite(t, page.Config{Operators: []string{page.Anonymous}})
	id := s.failed(1, "order.created", "refused")[0].String()
	for path, reloads := range map[string]bool{
		"": true, "decisions": true, "event?id=" + id: true, "event?payload=1&id=" + id: false,
		"list": false, "topics": false, "find": false, "decide?action=replay&id=" + id: false,
	} {
		a := s.get("", path).want(http.StatusOK)
		if (a.Header.Get("Refresh") != "") != reloads {
			t.Errorf("%s: Refresh is %q", path, a.Header.Get("Refresh"))
		}
		if reloads {
			paused := a.follow("", "Pause").want(http.StatusOK, "does not reload")
			if paused.Header.Get("Refresh") != "" || paused.follow("", "Reload it every 10 s").Header.Get("Refresh") == "" {
				t.Errorf("%s cannot be paused", path)
			}
		}
	}
}

// TestAListIsPagedAndFiltered in both orders, for failed events and for others.
func TestAListIsPagedAndFiltered(t *testing.T) {
	t.Parallel()
	s := newSite(t, page.Config{})
	ids := s.failed(120, "order.created", "refused")
	s.failed(1, "order.cancelled", "too_large")
	for _, filter := range []string{"list?topic=order.created", "list?status=pending&topic=order.created"} {
		if strings.Contains(filter, "pending") {
			s.exec("UPDATE outbox_queue SET failed_at = NULL, available_at = now()")
		}
		for _, order := range []string{"newest", "oldest"} {
			a, found := s.get("", filter+"&order="+order), 0
			for page := 0; ; page++ {
				for i, id := range ids {
					if !strings.Contains(a.text, "<code>"+id.String()) {
						continue
					}
					found++
					if want := map[string]int{"newest": (119 - i) / 50, "oldest": i / 50}[order]; page != want {
						t.Errorf("%s, %s: %d is on page %d, want %d", filter, order, i, page, want)
					}
				}
				a.want(http.StatusOK).wantNot("too_large")
				if !strings.Contains(a.text, ">Next</a>") {
					break
				}
				a = a.follow("", "Next")
			}
			if found != 120 {
				t.Errorf("%s, %s: %d events", filter, order, found)
			}
			a.follow("", "First").want(http.StatusOK)
		}
	}
	s.exec("INSERT INTO outbox_topics (topic, until, pause, reason) SELECT 't' || n, 'infinity', 0, 'why' FROM generate_series(100, 159) n")
	s.get("", "topics").want(http.StatusOK, "t149 has been paused").wantNot("t150").follow("", "Next").want(http.StatusOK, "t150", "t159").follow("", "First").want(http.StatusOK, "t100")
	s.get("", "").want(http.StatusOK, "More topics are paused")
	for query, wrong := range map[string]string{
		"status=lost": "The field status", "after=7": "The field after", "topic=%00": `"topic"`, "topic=%ff": `"topic"`,
		"reason=" + strings.Repeat("x", 2000): `"reason"`,
	} {
		s.get("", "list?"+query).want(http.StatusUnprocessableEntity, wrong)
	}
	for _, path := range []string{"event?id=7", "event", "decisions?before=x"} {
		s.get("", path).want(http.StatusUnprocessableEntity, "is not an id")
	}
	for _, path := range []string{"nothing", "event?id=0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57", "aggregate?type=order&id=7"} {
		s.get("", path).want(http.StatusNotFound, "There is no")
	}
}

// TestAnEventShowsWhatHappened, to itself and to its aggregate, with the decisions about it.
func TestAnEventShowsWhatHappened(t *testing.T) {
	t.Parallel()
	c := withUsers()
	c.Traces, c.Aggregate = "http://jaeger/trace/", "order"
	s := newSite(t, c)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	s.append(
		outbox.Event{Topic: "order.created", Aggregate: "order", AggregateID: "a/7", Version: 1, Payload: []byte(`{"to":"ann"}`), Traceparent: "00-" + trace + "-b7ad6b7169203331-01"},
		outbox.Event{Topic: "order.paid", Aggregate: "order", AggregateID: "a/7", Version: 2, Payload: []byte("{}")},
	)
	s.exec("UPDATE outbox_queue SET failed_at = now(), available_at = 'infinity', failure_code = 'refused', retry_count = 10 WHERE version = 1")
	s.exec("UPDATE outbox_queue SET available_at = 'infinity' WHERE version = 2")
	order := s.get("rob", "find?q=order/a/7").redirected("rob").want(http.StatusOK,
		"order.created, version 1: committed", "failed, not taken 10 times", "order.paid, version 2: waits for an older event of the order")
	event := order.follow("ann", "order.created").want(http.StatusOK, "Holds back1 later", trace, "It may be about a person").wantNot("&#34;to&#34;")
	event.follow("ann", "Replay").want(http.StatusOK, "order.created")
	event.follow("ann", "Show it").want(http.StatusOK, `"to": "ann"`)
	if !strings.Contains(s.logged.String(), `msg="payload shown" operator=ann`) {
		t.Error("nobody knows who has seen the payload")
	}
	asRob := s.get("rob", event.path).want(http.StatusOK, "Only operators see it").wantNot("decide?")
	s.get("rob", asRob.path+"&payload=1").want(http.StatusForbidden, "rob may not see payloads")

	form := event.follow("ann", "Discard").form()
	s.post("ann", "decide", form).redirected("ann").want(http.StatusOK, "discarded by ann, page", "given up: it is never sent")
	for _, query := range []string{trace, "00-" + trace + "-b7ad6b7169203331-01"} {
		s.get("rob", "find?q="+query).redirected("rob").want(http.StatusOK, "order a/7", "discarded by ann")
	}
	s.get("rob", "find?q="+form.Get("id")).redirected("rob").want(http.StatusOK, "order a/7")
	s.get("rob", "find?q=nothing").want(http.StatusNotFound, "Nothing is known about nothing")
	s.get("rob", "decisions").want(http.StatusOK, "ann", "discard", "1 of 1")
}

// TestAddressesAreMasked in what others have written, whatever the names look like.
func TestAddressesAreMasked(t *testing.T) {
	t.Parallel()
	s := newSite(t, withUsers())
	id := s.failed(1, "order.created", "refused")[0].String()
	s.exec(`UPDATE outbox_queue SET failure_reason = '550 <jean.luc.d''or@example.com> "ann smith"@example.com'`)
	s.post("ann", "find", url.Values{"text": {"secret.person"}}).want(http.StatusOK)
	s.post("ann", "decide", s.get("ann", "decide?action=pause&topic=t").form("why", "bill.gates@example.com asked")).want(http.StatusSeeOther)
	for _, path := range []string{"", "list", "event?id=" + id, "topics", "decisions"} {
		s.get("rob", path).want(http.StatusOK).wantNot("luc", "smith", "gates", "secret.person")
	}
	s.get("ann", "decisions").want(http.StatusOK, "text secret.person", "--reason b***@example.com asked")
}

// TestAPayloadIsShownAsItIs if its brackets are nested so deep that spaces would take much memory.
func TestAPayloadIsShownAsItIs(t *testing.T) {
	t.Parallel()
	s := newSite(t, page.Config{Operators: []string{page.Anonymous}})
	deep := strings.Repeat("[", 5000) + "0" + strings.Repeat(",0", 7000) + strings.Repeat("]", 5000)
	for _, payload := range []string{deep, "\xff\x00", "text"} {
		s.exec("TRUNCATE outbox_queue, outbox_events")
		s.append(outbox.Event{Topic: "t", Payload: []byte(payload), ContentType: "text/plain"})
		var id string
		must(t, s.pool.QueryRow(t.Context(), "SELECT id::text FROM outbox_queue").Scan(&id))
		shown := map[string]string{"\xff\x00": "ff00"}[payload]
		if a := s.get("", "event?payload=1&id="+id).want(http.StatusOK, cmp.Or(shown, payload)); len(a.text) > 100_000 {
			t.Errorf("%d bytes", len(a.text))
		}
	}
}

// TestATextOfPayloadsIsFoundAndRecorded for operators only.
func TestATextOfPayloadsIsFoundAndRecorded(t *testing.T) {
	t.Parallel()
	s := newSite(t, withUsers())
	id := s.failed(1, "order.created", "refused")[0]
	text := url.Values{"text": {"Ann@Example.com"}}
	s.post("rob", "find", text).want(http.StatusForbidden, "rob may not search in payloads")
	s.post("ann", "find", url.Values{"text": {"a "}}).want(http.StatusUnprocessableEntity, "too short")
	s.wantDecisions()
	s.post("ann", "find", text).want(http.StatusOK, "Found 1 event", id.String()).follow("ann", id.String()).want(http.StatusOK, "refused")
	s.post("ann", "find", url.Values{"text": {"somebody@example.com"}}).want(http.StatusOK, "None of the newest")
	s.wantDecisions(by("ann", operate.Find, 0), by("ann", operate.Find, 1))
	s.get("ann", "decisions").want(http.StatusOK, "text A***@Example.com").wantNot("Ann@")
}
