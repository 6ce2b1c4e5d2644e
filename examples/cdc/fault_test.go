package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// startBroker starts the broker unless it runs.
func startBroker(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest) // a cleanup has no t.Context
	defer cancel()
	if err := shared.Broker.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestABrokerThatIsAwayLosesNothing has two readers, each of a slot of its own. Meanwhile a slot
// holds the log from the first event on that is not published, up to CDC_MAX_WAL. The readers keep
// their connections for longer than wal_sender_timeout.
func TestABrokerThatIsAwayLosesNothing(t *testing.T) { //nolint:paralleltest // it changes the servers
	s, limited := newSystem(t), newSystem(t)
	s.startReading(noPoll)
	over := limited.startReading("CDC_MAX_WAL=1")
	s.orders(10)
	s.awaitQueue(0)
	s.await("the acknowledgement", func() bool { return s.heldWAL() < 1000 })
	reader := s.reader()
	// The time is intended: longer than CDC_TIMEOUT, while nothing is written. The reader has to ask
	// the server for a sign of life.
	time.Sleep(4 * time.Second)
	if now := s.reader(); now != reader {
		t.Errorf("the idle reader has lost its connection: process %d, before %d", now, reader)
	}
	if err := shared.Broker.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { startBroker(t) })
	before := scan[string](s, "SELECT pg_current_wal_lsn()::text")
	s.orders(200)
	written := scan[int64](s, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1::pg_lsn)::bigint", before)
	limited.orders(50)
	limited.writeWAL(3 << 20)
	over.awaitLog("the slot holds more than CDC_MAX_WAL")
	limited.await("the slot to hold less", func() bool { return limited.heldWAL() < 1<<20 })
	// The time is intended: twice wal_sender_timeout, with the reader's acknowledgements.
	time.Sleep(4 * time.Second)
	if held := s.heldWAL(); held < written {
		t.Errorf("the slot holds %d bytes, but %d were written since the broker is away", held, written)
	}
	if now := s.reader(); now != reader {
		t.Errorf("the reader has lost its connection: process %d, before %d", now, reader)
	}
	t.Logf("200 events are %d bytes of the log", written)
	startBroker(t)
	for _, s := range []*system{s, limited} {
		s.awaitQueue(0)
		s.await("the acknowledgement", func() bool { return s.heldWAL() < written })
		s.wantOnceAndInOrder()
	}
}

// writeWAL writes so many bytes to the log that have nothing to do with the outbox.
func (s *system) writeWAL(bytes int) {
	s.Helper()
	mustExec(s.T, s.pool, "CREATE TABLE IF NOT EXISTS other (text text)")
	mustExec(s.T, s.pool, "INSERT INTO other SELECT repeat(md5(i::text), 30) FROM generate_series(1, $1) i", bytes/1000)
}

// TestAKillOfTheReaderLosesNothing kills it in the middle of a stream of events. The batch in
// flight may arrive twice, so the test checks that each event arrives, and the order.
func TestAKillOfTheReaderLosesNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	placed := make(chan struct{})
	go func() {
		defer close(placed)
		s.orders(300)
	}()
	for range 3 {
		r := s.startReading("RELAY_LEASE=3s", "RELAY_CONFIRM_TIMEOUT=300ms", "RELAY_POLL_INTERVAL=100ms")
		time.Sleep(200 * time.Millisecond) // at any moment
		r.kill()
	}
	<-placed
	s.startReading("RELAY_LEASE=3s", "RELAY_CONFIRM_TIMEOUT=300ms", "RELAY_POLL_INTERVAL=100ms")
	s.awaitQueue(0)
	s.wantAll()
}

// wantAll checks that each event of the test arrived.
func (s *system) wantAll() {
	s.Helper()
	arrived := map[uuid.UUID]int{}
	repeats := 0
	for _, r := range s.receive() {
		if arrived[r.id]++; arrived[r.id] > 1 {
			repeats++
		}
	}
	for id := range s.ids {
		if arrived[id] == 0 {
			s.Errorf("event %s did not arrive", id)
		}
	}
	s.Logf("%d events, %d repeats", len(s.ids), repeats)
}

// TestEventsThatTheSlotRepeatsAreNotPublishedAgain kills PostgreSQL. The reader
// acknowledges once a second, and a slot's position is not on disk at once. So the server sends
// events again. The last line of the log has how many were left.
func TestEventsThatTheSlotRepeatsAreNotPublishedAgain(t *testing.T) { //nolint:paralleltest // it changes the servers
	s := newSystem(t)
	r := s.startReading(noPoll)
	s.orders(300)
	s.awaitQueue(0)
	mustExec(t, s.pool, "CREATE TABLE flush ()") // its commit writes the marks to the disk
	if err := shared.Database.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := shared.Database.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.pool.Reset()
	r.awaitReading(2)
	s.orders(20)
	s.awaitQueue(0)
	s.wantOnceAndInOrder()
	r.stop()
	t.Log(r.lastLine())
}

func (s *system) slotPosition() string {
	s.Helper()
	return scan[string](s, "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", s.name)
}

// TestACommitThatIsNotVisibleYetIsAwaited: with synchronous replication, a commit is in the log
// before the standby has it, and is visible afterwards.
func TestACommitThatIsNotVisibleYetIsAwaited(t *testing.T) { //nolint:paralleltest // it changes the servers
	s := newSystem(t)
	r := s.startReading(noPoll)
	s.orders(1)
	s.awaitQueue(0)
	openTurnstile := s.closeTurnstile()
	s.setLive("synchronous_standby_names", "nobody")
	before := scan[string](s, "SELECT pg_current_wal_lsn()::text")
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.orders(1)
	}()
	s.await("the commit in the log", func() bool {
		return scan[bool](s, "SELECT coalesce(bool_or(sent_lsn > $1), false) FROM pg_stat_replication", before) &&
			scan[int](s, "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event = 'SyncRep'") > 0
	})
	s.await("the relay to claim", func() bool {
		return scan[bool](s, "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
	})
	openTurnstile()
	s.closeTurnstile()() // the relay's claim has ended
	s.setLive("synchronous_standby_names", "")
	<-done
	s.awaitQueue(0)
	s.wantOnceAndInOrder()
	r.stop()
	if last := r.lastLine(); !strings.Contains(last, `"unseen":`) || strings.Contains(last, `"unseen":0`) {
		s.Errorf("the relay has not tried to claim the event before it was visible: %s", last)
	}
}

// closeTurnstile makes claims wait until open is called. It waits for a claim that runs.
func (s *system) closeTurnstile() (open func()) {
	s.Helper()
	tx, err := s.pool.Begin(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	if _, err := tx.Exec(s.Context(), "SELECT pg_advisory_xact_lock(cast('outbox_claims'::regclass::oid AS bigint))"); err != nil {
		s.Fatal(err)
	}
	return func() {
		s.Helper()
		if err := tx.Commit(s.Context()); err != nil {
			s.Fatal(err)
		}
	}
}

// setLive sets a parameter of the server until the test ends.
func (s *system) setLive(name, value string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest) // a cleanup has no t.Context
	defer cancel()
	conn, err := pgx.Connect(ctx, shared.Database.URL("postgres"))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range []string{
		"SET synchronous_commit = off", "ALTER SYSTEM SET " + name + " = '" + value + "'", "SELECT pg_reload_conf()",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			s.Fatal(err)
		}
	}
}
