package outbox

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/dbtest"
)

// listenerFixture is a relay that only listens.
type listenerFixture struct {
	*testing.T
	relay *Relay
	log   bytes.Buffer // read it after a wake-up only
}

func newListener(t *testing.T, pool *pgxpool.Pool) *listenerFixture {
	t.Helper()
	f := &listenerFixture{T: t}
	var err error
	f.relay, err = NewRelay(pool, newSink(), RelayConfig{Logger: slog.New(slog.NewTextHandler(&f.log, nil))})
	must(t, err)
	return f
}

func startListener(t *testing.T, pool *pgxpool.Pool) *listenerFixture {
	t.Helper()
	f := newListener(t, pool)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f.relay.listen(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	f.awaitWakeUp("it begins to listen")
	return f
}

func (f *listenerFixture) awaitWakeUp(when string) {
	f.Helper()
	select {
	case <-f.relay.wake:
	case <-time.After(testTimeout):
		f.Fatalf("no wake-up when %s", when)
	}
}

func notifyOnce(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	must(t, NewWaker(pool).notify(t.Context()))
}

const terminateListenersSQL = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
	WHERE datname = current_database() AND query LIKE 'LISTEN %'`

// TestATerminatedListenerListensAgain also wants a line for each change: the last one must tell
// whether it listens.
func TestATerminatedListenerListensAgain(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	f := startListener(t, pool)
	for range 2 {
		var n int
		if err := pool.QueryRow(t.Context(), terminateListenersSQL).Scan(&n); err != nil || n != 1 {
			t.Fatalf("%d sessions listen: %v", n, err)
		}
		f.awaitWakeUp("it listens again: events may have been committed meanwhile")
		notifyOnce(t, pool)
		f.awaitWakeUp("another process commits")
	}
	log := f.log.String()
	if lost, listens := strings.Count(log, "not listening"), strings.Count(log, "listening for events"); lost != 2 || listens != 3 {
		t.Errorf("logged %d times as lost, want 2, and %d times as listening, want 3:\n%s", lost, listens, log)
	}
}

// TestAListenerHearsOnlyItsOwnSchema, and not the other outbox of the database.
func TestAListenerHearsOnlyItsOwnSchema(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	admin := dbtest.Pool(t, url)
	if _, err := admin.Exec(t.Context(), "CREATE SCHEMA a; CREATE SCHEMA b"); err != nil {
		t.Fatal(err)
	}
	a, b := withTables(t, url+"&search_path=a"), withTables(t, url+"&search_path=b")
	inA, inB := startListener(t, a), startListener(t, b)
	notifyOnce(t, a)
	inA.awaitWakeUp("its outbox has an event")
	notifyOnce(t, b)
	inB.awaitWakeUp("its outbox has an event")
	if len(inA.relay.wake) > 0 {
		t.Error("woken by the other outbox")
	}
}

// TestASilentListenerListensAgain freezes the connection: nothing arrives on it any more, and it is
// not closed. The check finds it.
func TestASilentListenerListensAgain(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	direct := withTables(t, url)
	p := newProxy(t, url)
	f := startListener(t, dbtest.Pool(t, p.url))
	p.freeze()
	f.awaitWakeUp("it listens on another connection")
	notifyOnce(t, direct)
	f.awaitWakeUp("another process commits")
}

// TestADeafListenerSaysSo has a server whose sessions have another process id than it said at the
// start. PgBouncer does the same.
func TestADeafListenerSaysSo(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := servePooler(server); err != nil {
			t.Error(err)
		}
	})
	f := newListener(t, dbtest.Pool(t, "postgres://app@"+server.Addr().String()+"/app?sslmode=disable"))
	if err := f.relay.listen(t.Context()); err != nil { // it ends: no other try can help
		t.Error(err)
	}
	_ = server.Close()
	serving.Wait()
	if len(f.relay.wake) > 0 {
		t.Error("it listens")
	}
	if got := f.log.String(); strings.Count(got, "listening") != 1 || !strings.Contains(got, errPooler.Error()) {
		t.Errorf("the log is\n%s", got)
	}
}

// servePooler tells one client that its process id is 1, and answers each of its queries with 2.
func servePooler(server net.Listener) error {
	conn, err := server.Accept()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		return err
	}
	client := pgproto3.NewBackend(conn, conn)
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return err
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 0}})
	for {
		client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if err := client.Flush(); err != nil {
			return err
		}
		message, err := client.Receive()
		if err != nil {
			return err
		}
		if _, asked := message.(*pgproto3.Query); !asked {
			return nil
		}
		const int4, text = 23, 25
		client.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{
			{Name: []byte("pid"), DataTypeOID: int4, DataTypeSize: 4}, {Name: []byte("channel"), DataTypeOID: text, DataTypeSize: -1},
		}})
		client.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("2"), []byte("outbox_1")}})
		client.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
	}
}
