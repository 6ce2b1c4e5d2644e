package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// TestAnEventThatTheJanitorMovesDoesNotHoldTheSlot: the broker is away, so the feed still has the
// event when the janitor moves it out of an old partition. Then it is in the log a second time.
func TestAnEventThatTheJanitorMovesDoesNotHoldTheSlot(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, table := range []string{"outbox_events", "outbox_published"} {
		mustExec(t, s.pool, fmt.Sprintf(`DO $$ BEGIN EXECUTE format('CREATE TABLE %[1]s_old PARTITION OF %[1]s FOR VALUES FROM (%%L) TO (%%L)',
			outbox_first_id(now() - interval '9 days'), outbox_first_id(now() - interval '8 days')); END $$`, table))
	}
	broker := newGate(t, shared.Broker.URL("/"))
	s.startReading(noPoll, "AMQP_URL="+broker.url, "OUTBOX_RETENTION=720h") // its janitor drops nothing
	s.appendOld(204 * time.Hour)
	s.await("the partition to be dropped", s.dropPartition)
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

// dropPartition reports whether it dropped one. While the program's janitor works, the function in
// the database drops none, or gives up because it waited too long for the table's lock.
func (s *system) dropPartition() bool {
	s.Helper()
	var dropped *string
	err := s.pool.QueryRow(s.Context(), "SELECT outbox_drop_partition('7 days')").Scan(&dropped)
	if postgres.Contended(err) {
		return false
	}
	if err != nil {
		s.Fatal(err)
	}
	return dropped != nil
}

// appendOld commits an event whose id has the time of that age.
func (s *system) appendOld(age time.Duration) {
	s.Helper()
	id := uuid.Must(uuid.NewV7())
	var milliseconds [8]byte
	binary.BigEndian.PutUint64(milliseconds[:], uint64(time.Now().Add(-age).UnixMilli()))
	copy(id[:6], milliseconds[2:])
	order := uuid.New()
	m := outbox.Message{
		ID: id, AggregateType: "order", AggregateID: order, AggregateVersion: 1, EventKey: "order.created",
		Payload: fmt.Appendf(nil, `{"order_id": "%s", "order_version": 1}`, order),
	}
	err := s.db.InTx(s.Context(), func(tx *postgres.Tx) error { return outbox.Append(s.Context(), tx, m) })
	if err != nil {
		s.Fatal(err)
	}
	s.ids[id] = true
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
