package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/servers"
)

// limit bounds each wait of a test. It is also the timeout of a reader that is not frozen.
const limit = time.Minute

// system is the outbox of one test.
type system struct {
	*testing.T
	url string
	db  *pgx.Conn
}

func newSystem(t *testing.T) *system {
	t.Helper()
	return newSystemAt(t, servers.Database(t))
}

func newSystemAt(t *testing.T, url string) *system {
	t.Helper()
	s := &system{T: t, url: url}
	s.db = s.connect()
	s.exec(tables)
	return s
}

func (s *system) connect() *pgx.Conn {
	s.Helper()
	db, err := pgx.Connect(s.Context(), s.url)
	s.must(err)
	s.Cleanup(func() { _ = db.Close(context.Background()) })
	return db
}

func (s *system) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *system) exec(sql string) {
	s.Helper()
	_, err := s.db.Exec(s.Context(), sql)
	s.must(err)
}

// add commits an event.
func (s *system) add() (seq int64) {
	s.Helper()
	return s.addIn(s.db, uuid.New())
}

// addIn adds an event in a transaction, or on a connection.
func (s *system) addIn(db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, order uuid.UUID,
) (seq int64) {
	s.Helper()
	s.must(db.QueryRow(s.Context(), addSQL, order).Scan(&seq))
	return seq
}

// begin begins a transaction on a connection of its own.
func (s *system) begin() pgx.Tx {
	s.Helper()
	tx, err := s.connect().Begin(s.Context())
	s.must(err)
	return tx
}

// reader is a bySnapshot that records what it publishes.
type reader struct {
	*bySnapshot
	s         *system
	published []event
}

func (s *system) reader(page int) *reader {
	s.Helper()
	r := &reader{s: s, bySnapshot: &bySnapshot{db: s.connect(), page: page}}
	r.publish = appendTo(&r.published)
	return r
}

// lead returns the reader that continues from the journal.
func (s *system) lead(page int) *reader {
	s.Helper()
	r := s.reader(page)
	s.must(r.lead(s.Context(), limit))
	return r
}

// drain reads until nothing is left, and returns what it has published since the last time.
func (r *reader) drain() (seqs []int64) {
	r.s.Helper()
	r.published = nil
	for {
		n, err := r.pass(r.s.Context())
		r.s.must(err)
		if n == 0 {
			return seqsOf(r.published)
		}
	}
}

func seqsOf(events []event) (seqs []int64) {
	for _, e := range events {
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

func (r *reader) want(want ...int64) {
	r.s.Helper()
	if got := r.drain(); !slices.Equal(got, want) {
		r.s.Errorf("published %v, want %v", got, want)
	}
}
