package page_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/operate"
)

// TestAGroupIsDecidedFromItsRow in two clicks, with its number typed if it is above 100.
func TestAGroupIsDecidedFromItsRow(t *testing.T) {
	t.Parallel()
	s := newSite(t, withUsers())
	s.failed(101, "order.created", "refused")
	s.failed(2, "order.created", "too_large")
	ask := s.get("ann", "list").follow("ann", "Replay").want(http.StatusOK, "101 failed events of order.created that failed with refused", "to confirm")
	for _, typed := range []string{"", "100", "-101", "1e2"} {
		s.post("ann", "decide", ask.form("count", typed)).want(http.StatusUnprocessableEntity, "Nothing was changed", "must be 101")
	}
	s.wantDecisions()
	done := s.post("ann", "decide", ask.form("count", "101")).redirected("ann").want(http.StatusOK, "101 events replayed", "Nothing that failed matches any more")
	done.wantNot("<form")
	if n := s.count("outbox_queue WHERE failed_at IS NULL AND retry_count = 0"); n != 101 {
		t.Errorf("%d replayed", n)
	}
	discard := s.get("ben", "list?reason=too_large").follow("ben", "Discard").want(http.StatusOK, "This cannot be undone").wantNot("to confirm")
	s.post("ben", "decide", discard.form()).redirected("ben").want(http.StatusOK, "2 events discarded")
	s.wantDecisions(by("ben", operate.Discard, 2), by("ann", operate.Replay, 101))
}

// TestAGroupIsDecidedWithItsName as it is, and says why nothing of it was changed.
func TestAGroupIsDecidedWithItsName(t *testing.T) {
	t.Parallel()
	s := newSite(t, withUsers())
	s.failed(3, "order.created", "refused")
	s.failed(1, " ", "refused")
	s.failed(2, "sp ", "too_large")
	form := s.get("ann", "decide?action=discard&topic=+&reason=refused").want(http.StatusOK, "1 failed event of").form()
	s.post("ann", "decide", form).redirected("ann").want(http.StatusOK, "1 event discarded")
	form = s.get("ann", "list?topic=sp+").follow("ann", "Replay").want(http.StatusOK, "2 failed events").form()
	s.exec("DELETE FROM outbox_events WHERE topic = 'sp '")
	s.post("ann", "decide", form).want(http.StatusConflict, "Nothing was changed", "its payload is gone")
	s.get("ann", "decide?action=replay&topic=x&done="+uuid.NewString()).want(http.StatusNotFound, "no such decision")
	s.wantDecisions(by("ann", operate.Discard, 1))
}

// TestTheRestOfALargeGroupIsOneClick: one decision is about at most 10,000 events.
func TestTheRestOfALargeGroupIsOneClick(t *testing.T) {
	t.Parallel()
	s := newSite(t, withUsers())
	s.failed(operate.MaxDecided+150, "order.created", "refused")
	first := s.get("ann", "list").follow("ann", "Replay").want(http.StatusOK, "The oldest 10,000 of more failed events").form("count", "10,000")
	rest := s.post("ann", "decide", first).redirected("ann").want(http.StatusOK, "10,000 events replayed", "150 failed events", "Replay the rest")
	s.post("ann", "decide", first).want(http.StatusConflict, "Nothing was changed")
	if !strings.Contains(rest.text, `value="150"></label>`) {
		t.Error("the number must be typed again")
	}
	s.post("ann", "decide", rest.form("count", "150")).redirected("ann").want(http.StatusOK, "150 events replayed")
	s.wantDecisions(by("ann", operate.Replay, 150), by("ann", operate.Replay, operate.MaxDecided))
}

// TestAFormIsRefused that is forged, incomplete, old, or another user's affair.
func TestAFormIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, withUsers())
	ids := s.failed(3, "order.created", "refused")
	s.append(outbox.Event{Topic: "order.created", Payload: []byte("1")})
	ask := s.get("ann", "decide?action=replay&topic=order.created").form()
	one := s.get("ann", "decide?action=replay&id="+ids[0].String()).form()
	s.exec("UPDATE outbox_queue SET failed_at = now() WHERE id = $1", ids[1])
	var pending uuid.UUID
	must(t, s.pool.QueryRow(t.Context(), "SELECT id FROM outbox_queue WHERE failed_at IS NULL").Scan(&pending))
	with := func(form url.Values, pairs ...string) url.Values {
		form = maps.Clone(form)
		for i := 0; i < len(pairs); i += 2 {
			form[pairs[i]] = []string{pairs[i+1]}
		}
		return form
	}
	for name, test := range map[string]struct {
		user   string
		form   url.Values
		status int
		want   string
	}{
		"a reader":                   {"rob", ask, 403, "rob may look at everything here, but not decide"},
		"no login":                   {"", ask, 401, "name and the password"},
		"an empty form":              {"ann", url.Values{}, 422, "The field action"},
		"an empty filter":            {"ann", with(ask, "topic", ""), 422, "every failed event"},
		"another action":             {"ann", with(ask, "action", "republish"), 422, "The field action"},
		"a wrong id":                 {"ann", with(one, "id", "1"), 422, "The field \"id\""},
		"no id of the form":          {"ann", with(ask, "form", ""), 422, "The field \"form\""},
		"a negative number":          {"ann", with(ask, "seen", "-1"), 422, "at and seen"},
		"no time":                    {"ann", with(ask, "at", "now"), 422, "at and seen"},
		"another number":             {"ann", with(ask, "seen", "1"), 409, "Nothing was changed"},
		"one has failed again":       {"ann", ask, 409, "somebody has decided"},
		"one that has not failed":    {"ann", with(one, "id", pending.String()), 409, "is pending, not failed"},
		"a topic that is not paused": {"ann", with(one, "action", "resume", "topic", "order.created"), 409, "it is not paused any more"},
		"a pause without a reason":   {"ann", with(one, "action", "pause", "topic", "order.created"), 422, "The field why"},
		"a pause of nothing":         {"ann", with(one, "action", "pause"), 422, "The field topic"},
	} {
		t.Log(name)
		s.post(test.user, "decide", test.form).want(test.status, test.want)
	}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://elsewhere"}} {
		s.send("ann", http.MethodPost, "decide", one, headers...).want(http.StatusForbidden, "comes from another site")
	}
	s.wantDecisions()
	if s.count("outbox_queue WHERE failed_at IS NOT NULL") != 3 || s.count("outbox_topics") != 0 {
		t.Error("a refused form has changed something")
	}
	for _, name := range []string{"cross_origin", "not_an_operator"} {
		if !strings.Contains(s.logged.String(), "result="+name) {
			t.Errorf("%s is not logged", name)
		}
	}
	// The id of a form is not that of the decision: the newest decision is listed, whatever it is.
	one.Set("form", uuid.Max.String())
	// A browser at any host name may, also over plain HTTP, where it sends no Sec-Fetch-Site.
	s.send("ann", http.MethodPost, "decide", one, "Origin", "http://shop.internal:4100", "Host", "shop.internal:4100").want(http.StatusSeeOther)
	s.post("ann", "decide", one).want(http.StatusConflict, "Nothing was changed")
	s.wantDecisions(by("ann", operate.Replay, 1))
}

// TestADecisionIsMadeAlthoughItsUserGoesAway while it waits for a lock.
func TestADecisionIsMadeAlthoughItsUserGoesAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, withUsers())
	s.failed(3, "order.created", "refused")
	form := s.get("ann", "decide?action=discard&topic=order.created").form()
	lock, err := s.pool.Begin(t.Context())
	must(t, err)
	_, err = lock.Exec(t.Context(), "SELECT id FROM outbox_queue FOR UPDATE")
	must(t, err)
	gone := make(chan struct{})
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 200 * time.Millisecond}
	go func() {
		defer close(gone)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.server.URL+"/outbox/decide", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("ann", "annannann")
		if response, err := client.Do(r); err == nil {
			_ = response.Body.Close()
			t.Error("the decision did not wait")
		}
	}()
	<-gone
	must(t, lock.Rollback(t.Context()))
	dbtest.Await(t, "a decision", func() bool { return s.count("operator_decisions") > 0 })
	s.wantDecisions(by("ann", operate.Discard, 3))
}

// TestATopicIsPausedAndResumed by an operator, and a halted event is discarded.
func TestATopicIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	s := newSite(t, withUsers())
	s.append(outbox.Event{Topic: "order.created", Payload: []byte("1")})
	pause := s.get("ann", "decide?action=pause&topic=order.created").want(http.StatusOK, "are kept until somebody resumes it").form("why", "the broker moves")
	s.post("ann", "decide", pause).redirected("ann").want(http.StatusOK, "order.created has been paused since", "by ann: the broker moves", "waits until somebody resumes it")
	s.get("rob", "topics").want(http.StatusOK, "order.created has been paused").wantNot("decide")
	s.exec("UPDATE outbox_queue SET available_at = 'infinity', halted = true")
	list := s.get("ann", "list?status=pending&topic=order.created").want(http.StatusOK, "pending, paused")
	s.post("ann", "decide", list.follow("ann", "Resume").form()).redirected("ann").want(http.StatusOK, "None is paused")
	var id uuid.UUID
	must(t, s.pool.QueryRow(t.Context(), "SELECT id FROM outbox_queue").Scan(&id))
	event := s.get("ann", "event?id="+id.String()).wantNot("Replay")
	s.post("ann", "decide", event.follow("ann", "Discard").form()).redirected("ann").want(http.StatusOK, "discarded by ann")
	s.wantDecisions(by("ann", operate.Discard, 1), by("ann", operate.Resume, 1), by("ann", operate.Pause, 1))

	// Another operator's pause is not ended by a form that was opened before it.
	s.exec("INSERT INTO outbox_topics (topic, until, pause, reason) VALUES ('t', now() + interval '1 minute', 9, 'no queue') ON CONFLICT DO NOTHING")
	resume := s.get("ann", "decide?action=resume&topic=t").form()
	s.post("ben", "decide", s.get("ben", "decide?action=pause&topic=t").want(http.StatusOK, "no queue").form("why", "leave it")).want(http.StatusSeeOther)
	s.post("ann", "decide", resume).want(http.StatusConflict, "another operator has paused it since")
	s.get("ann", "topics").want(http.StatusOK, "by ben: leave it")
}
