package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
)

// TestSIGKILLLosesNothingAndRepeatsAtMostOnePage kills readers while writers work. Every second
// reader is killed between publishing and storing its position, the others at about the moment
// when it is stored. The next reader waits already.
func TestSIGKILLLosesNothingAndRepeatsAtMostOnePage(t *testing.T) {
	t.Parallel()
	const page, kills = 20, 8
	s := newSystem(t)
	stopWriters := s.startWriters()
	var published []int64
	again := map[int64]int{} // how often an event may be published once more
	must := map[int64]int{}  // … and has to be
	leader := s.child(page, limit)
	s.awaitReaders(true, 1)
	for kill := range kills {
		standby := s.child(page, limit)
		seqs := leader.pages(5)
		published = append(published, seqs...)
		s.awaitReaders(false, 1)
		last := seqs[len(seqs)-leader.size:]
		if kill%2 == 0 {
			add(must, last)
		} else {
			leader.proceed()
		}
		add(again, last)
		leader.kill()
		leader = standby
	}
	stopWriters()
	published = append(published, leader.drain()...)
	s.wantPublished(published, must, again)
}

func add(times map[int64]int, seqs []int64) {
	for _, seq := range seqs {
		times[seq]++
	}
}

// wantPublished compares what the readers have published with what is committed.
func (s *system) wantPublished(published []int64, must, again map[int64]int) {
	s.Helper()
	rows, _ := s.db.Query(s.Context(), "SELECT seq, order_id, version FROM events ORDER BY seq")
	committed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
	s.must(err)
	events, times := []event{}, map[int64]int{}
	add(times, published)
	for _, seq := range published {
		i, found := slices.BinarySearchFunc(committed, seq, func(e event, seq int64) int { return int(e.Seq - seq) })
		if !found {
			s.Fatalf("event %d is published and not committed", seq)
		}
		events = append(events, committed[i])
	}
	repeats := 0
	for seq, n := range times {
		repeats += n - 1
		if n-1 < must[seq] || n-1 > again[seq] {
			s.Errorf("event %d is published %d times, want %d to %d", seq, n, 1+must[seq], 1+again[seq])
		}
	}
	c := compare(committed, events)
	s.Logf("%d committed, %+v, %d repeats", len(committed), c, repeats)
	if c.missed > 0 || c.disordered > 0 || len(committed) == 0 {
		s.Errorf("of %d events: %+v", len(committed), c)
	}
}

// startWriters returns a function that stops the writers, and waits until they have stopped.
func (s *system) startWriters() (stop func()) {
	s.Helper()
	config, err := pgx.ParseConfig(s.url)
	s.must(err)
	orders := []uuid.UUID{uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New()}
	var stopped atomic.Bool
	group, ctx := errgroup.WithContext(s.Context())
	for range 4 {
		group.Go(func() (err error) {
			for !stopped.Load() && err == nil {
				err = write(ctx, config, orders, 20)
			}
			return err
		})
	}
	return func() {
		s.Helper()
		stopped.Store(true)
		s.must(group.Wait())
	}
}

// TestAFrozenReaderIsReplacedAndStoresNothing stops a reader with SIGSTOP between publishing and
// storing, for longer than its session may be idle.
func TestAFrozenReaderIsReplacedAndStoresNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	seq := s.add()
	frozen := s.child(10, 2*time.Second)
	frozen.want(seq)
	frozen.signal(syscall.SIGSTOP)
	next := s.child(10, limit)
	next.want(seq)
	next.proceed()
	next.want() // it has stored its position
	frozen.signal(syscall.SIGCONT)
	frozen.proceed()
	if line := frozen.nextLine(); !strings.HasPrefix(line, "error:") {
		t.Errorf("the frozen reader says %q, want an error", line)
	}
	later := s.add()
	next.proceed()
	next.want(later)
}

// TestTheNextReaderContinuesInsideAWindow has events that commit after the window was opened, also
// one with a smaller seq.
func TestTheNextReaderContinuesInsideAWindow(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	slow := s.begin()
	late := s.addIn(slow, uuid.New())
	a, b, c := s.add(), s.add(), s.add()
	first := s.lead(1)
	_, err := first.pass(t.Context())
	s.must(err)
	s.must(slow.Commit(t.Context()))
	later := s.add()
	s.must(first.db.Close(t.Context()))
	if got := seqsOf(first.published); !slices.Equal(got, []int64{a}) {
		t.Errorf("the first reader has published %v, want %d", got, a)
	}
	s.lead(10).want(b, c, late, later)
}

// TestTwoReadersCannotStoreTheSameBatch has a second reader that ignores the lock, as behind a
// pooler that gives the session to others.
func TestTwoReadersCannotStoreTheSameBatch(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add()
	leader, other := s.lead(10), s.reader(10)
	s.must(other.load(t.Context()))
	leader.want(1)
	s.add()
	_, err := other.pass(t.Context())
	var duplicate *pgconn.PgError
	if !errors.As(err, &duplicate) || duplicate.Code != "23505" {
		t.Errorf("the second reader has %v, want a unique violation", err)
	}
	leader.want(2)
}

// TestAReaderThatFailsToPublishKeepsItsPosition publishes the same page next time.
func TestAReaderThatFailsToPublishKeepsItsPosition(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	r := s.lead(2)
	a, b, c := s.add(), s.add(), s.add()
	works, broken := r.publish, errors.New("no broker")
	for _, publish := range []publish{works, func(context.Context, []event) error { return broken }} {
		r.publish = publish
		if _, err := r.pass(t.Context()); err != nil && !errors.Is(err, broken) {
			t.Fatal(err)
		}
	}
	if got := seqsOf(r.published); !slices.Equal(got, []int64{a, b}) {
		t.Errorf("published %v", got)
	}
	r.publish = works
	r.want(c)
}
