package main

import (
	"syscall"
	"testing"
	"time"
)

// TestALostSlotIsMadeAnew suspends the reader, and writes more than the slot may hold. All events
// that the slot has lost are in the queue.
func TestALostSlotIsMadeAnew(t *testing.T) { //nolint:paralleltest // it changes the servers
	s := newSystem(t)
	r := s.startReading()
	s.orders(10)
	s.awaitQueue(0)
	if err := r.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.orders(50)
	s.setLive("max_slot_wal_keep_size", "1MB")
	t.Cleanup(func() { s.setLive("max_slot_wal_keep_size", "-1") })
	s.await("the slot to be lost", func() bool {
		s.writeWAL(16 << 20)
		mustExec(t, s.pool, "CHECKPOINT")
		return scan[string](s, "SELECT wal_status FROM pg_replication_slots WHERE slot_name = $1", s.name) == "lost"
	})
	if err := r.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.awaitLog("the slot is lost")
	r.awaitReading(2)
	s.awaitQueue(0)
	s.orders(10)
	s.awaitQueue(0)
	s.wantOnceAndInOrder()
}

// TestThePollWorksWhileTheSlotIsMade: PostgreSQL makes a slot only after the end of each
// transaction that is writing.
func TestThePollWorksWhileTheSlotIsMade(t *testing.T) { //nolint:paralleltest // it changes the servers
	s := newSystem(t)
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "CREATE TABLE open_transaction ()"); err != nil {
		t.Fatal(err)
	}
	r := s.start("RELAY_POLL_INTERVAL=200ms")
	r.awaitLog("making the slot waits for the open transactions")
	s.orders(20)
	s.awaitQueue(0)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitLog("reading the log")
	s.orders(20)
	s.awaitQueue(0)
	s.wantOnceAndInOrder()
}

// TestAQuietOutboxHoldsNoLog writes to another database all the time.
func TestAQuietOutboxHoldsNoLog(t *testing.T) {
	t.Parallel()
	s, busy := newSystem(t), newSystem(t)
	s.startReading()
	s.orders(1)
	s.awaitQueue(0)
	first := s.slotPosition()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		busy.writeWAL(1 << 20)
	}
	written := scan[int64](s, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1::pg_lsn)::bigint", first)
	held := s.heldWAL()
	t.Logf("%d MiB were written, %d MiB are held while they are", written>>20, held>>20)
	if held > written/2 {
		t.Errorf("the slot holds %d of %d bytes", held, written)
	}
	mustExec(t, s.pool, "CHECKPOINT") // restart_lsn moves with the list of running transactions
	s.await("the disk to be free", func() bool {
		return scan[int64](s, `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint
			FROM pg_replication_slots WHERE slot_name = $1`, s.name) < 1<<20
	})
}
