package outbox

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/dbtest"
)

// listenerFixture is a running listener.
type listenerFixture struct {
	*testing.T
	woken     chan struct{}
	listening atomic.Bool
	log       bytes.Buffer // read it after a wake-up only
}

func startListener(t *testing.T, pool *pgxpool.Pool) *listenerFixture {
	t.Helper()
	f := &listenerFixture{T: t, woken: make(chan struct{}, 1)}
	l := &listener{pool: pool, listening: &f.listening, log: newLines(slog.New(slog.NewTextHandler(&f.log, nil))), wake: func() {
		select {
		case f.woken <- struct{}{}:
		default:
		}
	}}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- l.run(ctx) }()
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
	case <-f.woken:
	case <-time.After(testTimeout):
		f.Fatalf("no wake-up when %s", when)
	}
}

func notifyOnce(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if err := notifyOn(pool)(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	if len(inA.woken) > 0 {
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
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), testTimeout)
	defer stop()
	const tries = 3
	var serving sync.WaitGroup
	serving.Go(func() {
		defer stop()
		for range tries {
			if err := servePooler(server); err != nil {
				t.Error(err)
			}
		}
	})
	pool := dbtest.Pool(t, "postgres://app@"+server.Addr().String()+"/app?sslmode=disable")
	var log bytes.Buffer
	var listening atomic.Bool
	l := &listener{pool: pool, listening: &listening, wake: func() { t.Error("it listens") }, log: newLines(slog.New(slog.NewTextHandler(&log, nil)))}
	if err := l.run(ctx); err != nil {
		t.Error(err)
	}
	_ = server.Close()
	serving.Wait()
	if got := log.String(); strings.Count(got, "not listening") != 1 || !strings.Contains(got, errPooler.Error()) {
		t.Errorf("after %d tries the log is\n%s", tries, got)
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
