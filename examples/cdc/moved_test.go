package main

import (
	"io"
	"net"
	"net/url"
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/internal/store"
)

// TestAnEventThatTheJanitorMovesDoesNotHoldTheSlot: the broker is away, so the feed still has the
// event when a janitor moves it to another slot of the ring. Then it is in the log a second time.
func TestAnEventThatTheJanitorMovesDoesNotHoldTheSlot(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	broker := newGate(t, shared.Broker.URL("/"))
	s.startReading(noPoll, "AMQP_URL="+broker.url, "OUTBOX_RETENTION=720h") // its janitor moves nothing
	s.orders(1)
	before := s.slotOfTheEvent()
	janitor := store.New(s.pool)
	s.await("the event to be moved", func() bool {
		mustExec(t, s.pool, "UPDATE outbox_ring SET since = now() - interval '1 day', moved = now() - interval '1 day'")
		if err := janitor.Rotate(t.Context(), time.Hour); err != nil {
			t.Log(err) // it may have waited too long for a lock
		}
		return s.slotOfTheEvent() != before
	})
	moved := scan[string](s, "SELECT pg_current_wal_lsn()::text")
	s.await("the log to be sent", func() bool {
		return scan[bool](s, "SELECT bool_or(sent_lsn >= $2::pg_lsn) FROM pg_stat_replication WHERE pid = $1", s.reader(), moved)
	})
	close(broker.open)
	s.awaitQueue(0)
	s.await("the slot to forget the event", func() bool {
		return scan[bool](s, "SELECT confirmed_flush_lsn >= $2::pg_lsn FROM pg_replication_slots WHERE slot_name = $1", s.name, moved)
	})
	s.wantOnceAndInOrder()
}

// slotOfTheEvent is where the log has the only event that waits.
func (s *system) slotOfTheEvent() int {
	s.Helper()
	return scan[int](s, "SELECT slot FROM outbox_queue")
}

// gate is an address of the broker that answers only after open is closed.
type gate struct {
	url  string
	open chan struct{}
}

func newGate(t *testing.T, target string) *gate {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	host := to.Host
	to.Host = listener.Addr().String()
	g := &gate{url: to.String(), open: make(chan struct{})}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go g.pass(conn, host)
		}
	}()
	return g
}

func (g *gate) pass(from net.Conn, host string) {
	defer func() { _ = from.Close() }()
	<-g.open
	to, err := net.Dial("tcp", host)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() { _, _ = io.Copy(to, from) }()
	_, _ = io.Copy(from, to)
}
