package main

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/servers"
)

// TestSeqCursorPassesAnEventThatCommitsLater is what the other cursor is for.
func TestSeqCursorPassesAnEventThatCommitsLater(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	var published []event
	bySeq := &bySeq{db: s.connect(), publish: appendTo(&published), page: 10}
	bySnapshot := s.lead(10)
	slow := s.begin()
	first := s.addIn(slow, uuid.New())
	second := s.add()
	for range 2 {
		_, err := bySeq.pass(t.Context())
		s.must(err)
		if seqs := seqsOf(published); len(seqs) != 1 || seqs[0] != second {
			t.Errorf("seq > last has read %v, want %d only", seqs, second)
		}
		if slow != nil {
			bySnapshot.want(second)
			s.must(slow.Commit(t.Context()))
			slow = nil
		}
	}
	bySnapshot.want(first)
	bySnapshot.want()
}

// TestWindowsHaveEachCommittedEventOnce has transactions that are open in many windows.
func TestWindowsHaveEachCommittedEventOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	r := s.lead(2)
	open := map[int64]pgx.Tx{}
	for range 3 {
		tx := s.begin()
		open[s.addIn(tx, uuid.New())] = tx
		rolledBack := s.begin()
		s.addIn(rolledBack, uuid.New())
		r.want(s.add())
		s.must(rolledBack.Rollback(t.Context()))
		r.want()
	}
	for seq, tx := range open {
		s.must(tx.Commit(t.Context()))
		r.want(seq)
	}
	r.want(s.add(), s.add(), s.add(), s.add()) // the last page of the window is full
	r.want(s.add())
}

// TestAWindowStaysAsItWasWhenItsPagesAreRead has events that commit between two pages. They have
// a smaller seq than what is published, and a larger one.
func TestAWindowStaysAsItWasWhenItsPagesAreRead(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	r := s.lead(2)
	slow := s.begin()
	late := s.addIn(slow, uuid.New())
	a, b, c := s.add(), s.add(), s.add()
	if n, err := r.pass(t.Context()); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	s.must(slow.Commit(t.Context()))
	d := s.add()
	if n, err := r.pass(t.Context()); n != 1 || err != nil {
		t.Error(n, err)
	}
	if got := seqsOf(r.published); len(got) != 3 || got[0] != a || got[1] != b || got[2] != c {
		t.Errorf("the window has %v, want %v", got, []int64{a, b, c})
	}
	r.want(late, d)
}

// TestOrderOfAnAggregateIsNotTheOrderOfItsTransactions has two changes of one order. The
// transaction of the second change has the smaller number.
func TestOrderOfAnAggregateIsNotTheOrderOfItsTransactions(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	r := s.lead(10)
	order := uuid.New()
	second := s.begin()
	_, err := second.Exec(t.Context(), "SELECT pg_current_xact_id()")
	s.must(err)
	created := s.addIn(s.db, order)
	changed := s.addIn(second, order)
	s.must(second.Commit(t.Context()))
	r.want(created, changed)
}

// TestSavepointsHaveTheNumberOfTheirTransaction also shows that a row's xmin has not.
func TestSavepointsHaveTheNumberOfTheirTransaction(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	r := s.lead(10)
	tx := s.begin()
	rolledBack, err := tx.Begin(t.Context())
	s.must(err)
	s.addIn(rolledBack, uuid.New())
	s.must(rolledBack.Rollback(t.Context()))
	kept, err := tx.Begin(t.Context())
	s.must(err)
	inSavepoint := s.addIn(kept, uuid.New())
	s.must(kept.Commit(t.Context()))
	outside := s.addIn(tx, uuid.New())
	r.want(s.add()) // a window while the transaction is open
	s.must(tx.Commit(t.Context()))
	r.want(inSavepoint, outside)

	var numbers, rowNumbers int
	s.must(s.db.QueryRow(t.Context(), `SELECT count(DISTINCT xid), count(DISTINCT xmin::text)
		FROM events WHERE seq = ANY ($1)`, []int64{inSavepoint, outside}).Scan(&numbers, &rowNumbers))
	if numbers != 1 || rowNumbers != 2 {
		t.Errorf("one transaction has %d numbers and its rows %d, want 1 and 2", numbers, rowNumbers)
	}
}

// TestAPreparedTransactionIsReadWhenItIsCommitted restarts the server in between: a prepared
// transaction has no session.
func TestAPreparedTransactionIsReadWhenItIsCommitted(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	s := newSystemAt(t, server.URL("postgres"))
	s.exec("ALTER SYSTEM SET max_prepared_transactions = 2")
	s.restart(server)
	r := s.lead(10)
	tx := s.begin()
	prepared := s.addIn(tx, uuid.New())
	_, err := tx.Exec(t.Context(), "PREPARE TRANSACTION 'order'")
	s.must(err)
	r.want(s.add())
	s.restart(server)
	r = s.lead(10)
	r.want(s.add())
	s.exec("COMMIT PREPARED 'order'")
	r.want(prepared)
	r.want()
}

func (s *system) restart(server *servers.PostgresServer) {
	s.Helper()
	s.must(server.Stop(s.Context()))
	s.must(server.Start(s.Context()))
	s.db = s.connect()
}
