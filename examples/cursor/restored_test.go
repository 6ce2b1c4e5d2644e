package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/servers"
)

// restore copies the tables into another cluster, as a dump does: with their numbers.
func (s *system) restore(url string) *system {
	s.Helper()
	into := newSystemAt(s.T, url)
	into.exec("TRUNCATE journal")
	for _, table := range []string{"orders", "events", "journal"} {
		var dump bytes.Buffer
		_, err := s.db.PgConn().CopyTo(s.Context(), &dump, "COPY "+table+" TO STDOUT")
		s.must(err)
		_, err = into.db.PgConn().CopyFrom(s.Context(), &dump, "COPY "+table+" FROM STDIN")
		s.must(err)
	}
	into.exec("SELECT setval('events_seq_seq', (SELECT max(seq) FROM events))")
	return into
}

// restored has two published events, one of a page that is, one of a page that is not, and one
// behind the window. Its cluster has used fewer transaction numbers.
func restored(t *testing.T) *system {
	t.Helper()
	s := newSystem(t)
	s.exec(`DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$`)
	r := s.lead(1)
	s.add()
	s.add()
	r.want(1, 2)
	s.add()
	s.add()
	n, err := r.pass(t.Context()) // 3 is published, and 4 is the window's next page
	s.must(err)
	s.add()
	if n != 1 || r.newer == "" {
		t.Fatalf("%d published, position %+v; want an open window", n, r.position)
	}
	return s.restore(servers.Postgres(t).URL("postgres"))
}

func TestAJournalOfAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	s := restored(t)
	r := s.reader(10)
	err := r.lead(t.Context(), limit)
	if err == nil || !strings.Contains(err.Error(), "another PostgreSQL cluster") {
		t.Fatalf("the reader has %v, want that it refuses the journal", err)
	}
	// What would be lost: a new event counts as published.
	s.add()
	var published []int64
	s.must(s.db.QueryRow(t.Context(), `SELECT array_agg(seq ORDER BY seq) FROM events
		WHERE pg_visible_in_snapshot(xid, $1)`, r.older).Scan(&published))
	if !slices.Equal(published, []int64{1, 2, 6}) {
		t.Errorf("without the comparison, %v count as published, want 1, 2 and the new 6", published)
	}
}

// TestAdoptedEventsArePublishedOnce leaves out what the journal says to be published.
func TestAdoptedEventsArePublishedOnce(t *testing.T) {
	t.Parallel()
	s := restored(t)
	s.exec(adoptSQL)
	s.add()
	r := s.lead(2)
	r.want(4, 5, 6)
	s.add()
	r.want(7)
}
