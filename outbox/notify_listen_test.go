package outbox

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/internal/quietlog"
)

// listenerFixture has a channel with the wake-ups.
type listenerFixture struct {
	*testing.T
	*listener
	wake chan struct{}
	text bytes.Buffer // of the log; read it after a wake-up only
}

func newListener(t *testing.T, pool *pgxpool.Pool) *listenerFixture {
	t.Helper()
	f := &listenerFixture{T: t, wake: make(chan struct{}, 10)}
	f.listener = &listener{pool: pool, log: quietlog.New(slog.New(slog.NewTextHandler(&f.text, nil))), heard: func() { f.wake <- struct{}{} }}
	return f
}

func startListener(t *testing.T, pool *pgxpool.Pool) *listenerFixture {
	t.Helper()
	f := newListener(t, pool)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f.run(ctx) }()
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
	case <-f.wake:
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
	log := f.text.String()
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
	if len(inA.wake) > 0 {
		t.Error("woken by the other outbox")
	}
}

// TestASilentListenerListensAgain freezes the connection: nothing arrives on it any more, and it is
// not closed. The check finds it.
func TestASilentListenerListensAgain(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	direct := withTables(t, url)
	pool, connections := frozenPool(t, url)
	f := startListener(t, pool)
	connections.freeze()
	f.awaitWakeUp("it listens on another connection")
	notifyOnce(t, direct)
	f.awaitWakeUp("another process commits")
}

// otherPID is a connection on which the server says another process id at the start than its session
// has later. PgBouncer does the same.
type otherPID struct{ net.Conn }

func (c otherPID) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if _, key, found := bytes.Cut(p[:n], []byte("K\x00\x00\x00\x0c")); found { // BackendKeyData
		key[3]++
	}
	return n, err
}

// TestADeafListenerSaysSo, and ends: no other try can help.
func TestADeafListenerSaysSo(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	config := pool.Config()
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return otherPID{conn}, err
	}
	pooled, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pooled.Close)
	f := newListener(t, pooled)
	must(t, f.run(t.Context()))
	if len(f.wake) > 0 {
		t.Error("it listens")
	}
	if got := f.text.String(); strings.Count(got, "listening") != 1 || !strings.Contains(got, errPooler.Error()) {
		t.Errorf("the log is\n%s", got)
	}
}
