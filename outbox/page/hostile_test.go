package page_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/page"
)

// TestHostileValuesAreText on every page: in each column that others can fill, and in the query.
func TestHostileValuesAreText(t *testing.T) {
	t.Parallel()
	const hostile = `"'><script>alert(1)</script>{{.}}` + "\u202e"
	c := page.Config{Operators: []string{page.Anonymous}, Aggregate: "order"}
	s := newSite(t, c)
	s.append(outbox.Event{
		Topic: hostile, Aggregate: hostile, AggregateID: "javascript:alert(1)", Version: 1, Payload: []byte(hostile), ContentType: "text/html",
		Headers: map[string]string{"h": hostile}, Traceparent: "00-" + strings.Repeat("a", 32) + "-b7ad6b7169203331-01",
	})
	s.exec("UPDATE outbox_queue SET failed_at = now(), available_at = 'infinity', failure_code = $1, failure_reason = $1", hostile)
	s.exec("INSERT INTO outbox_topics (topic, until, pause, reason, operator) VALUES ($1, 'infinity', 0, $1, $1)", hostile)
	s.exec(`INSERT INTO operator_decisions (id, decision, operator, via, action, filter, items, finished_at, done)
		SELECT gen_random_uuid(), cast('00000000-0000-7000-8000-000000000000' AS uuid), $1, 'page', 'replay', $1, ARRAY[id::text], now(), 1 FROM outbox_queue`, hostile)
	var id string
	must(t, s.pool.QueryRow(t.Context(), "SELECT id::text FROM outbox_queue").Scan(&id))
	q := url.QueryEscape(hostile)
	for _, path := range []string{
		"", "list", "list?topic=" + q + "&reason=" + q, "list?status=" + q, "list?after=" + q, "event?id=" + id, "event?payload=1&id=" + id,
		"aggregate?type=" + q + "&id=javascript%3Aalert(1)", "topics", "decisions", "decisions?paused=" + q, "find?q=" + q, "decide?action=replay&topic=" + q + "&reason=" + q,
		"decide?action=pause&topic=" + q, "decide?action=resume&topic=" + q, "decide?action=" + q, "decide?action=discard&id=" + id, q,
	} {
		s.get("", path).wantNot("<script", `"'>`, `href="javascript`)
	}
	// They lead on: a group with such names is decided from its row.
	form := s.get("", "list").follow("", "Replay").want(http.StatusOK, hostile).form()
	s.post("", "decide", form).redirected("").want(http.StatusOK, "1 event replayed")
	s.wantDecisions(by(page.Anonymous, operate.Replay, 1), by(hostile, operate.Replay, 1))
}

// TestWithoutADatabaseThePageSaysSo, and not why: an error may name hosts. The overview shows the
// other problems.
func TestWithoutADatabaseThePageSaysSo(t *testing.T) {
	t.Parallel()
	s := newSite(t, page.Config{
		Health:  func() error { return fmt.Errorf("%w: closed", outbox.ErrNoDatabase) },
		Runbook: page.Runbook{Relay: "book#relay", Database: "book#database"},
	})
	s.exec("DROP TABLE outbox_queue CASCADE")
	s.get("", "").want(http.StatusOK, "2 problems", "The relay waits for the database: closed.", "The database does not answer this page", "What to do: book#database").wantNot("outbox_queue", "book#relay")
	s.get("", "list").want(http.StatusServiceUnavailable, "The log says why").wantNot("outbox_queue")
	if !strings.Contains(s.logged.String(), "outbox_queue") {
		t.Error("the log does not say why")
	}
}
