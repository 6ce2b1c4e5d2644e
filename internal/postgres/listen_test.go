package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/test/servers"
)

// listenTestTimeout limits the wait for a notification, and for the detection of a lost
// connection: a check every 10 s, and 5 s for its answer.
const listenTestTimeout = 25 * time.Second

// listener is a running Listen.
type listener struct {
	*testing.T
	listening, notified chan struct{}
	ended               chan error
	stop                context.CancelFunc
}

func listenAt(t *testing.T, url string) *listener {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	e := &listener{T: t, listening: make(chan struct{}, 1), notified: make(chan struct{}, 10), ended: make(chan error, 1), stop: stop}
	go func() {
		e.ended <- postgres.Listen(ctx, url, "A channel", func() { e.listening <- struct{}{} }, func() { e.notified <- struct{}{} })
	}()
	e.await(e.listening, "it does not listen")
	return e
}

func (e *listener) await(event <-chan struct{}, otherwise string) {
	e.Helper()
	select {
	case <-event:
	case err := <-e.ended:
		e.Fatalf("%s: %v", otherwise, err)
	case <-time.After(listenTestTimeout):
		e.Fatal(otherwise)
	}
}

// awaitEnd waits for the end of Listen, and returns its error.
func (e *listener) awaitEnd(within time.Duration) error {
	e.Helper()
	select {
	case err := <-e.ended:
		return err
	case <-time.After(within):
		e.Fatalf("it has not ended after %s", within)
		return nil
	}
}

func notify(t *testing.T, db *postgres.DB) {
	t.Helper()
	err := db.InTx(t.Context(), func(tx pgx.Tx) error { return postgres.Write(t.Context(), tx, "notifying", `NOTIFY "A channel"`, nil) })
	if err != nil {
		t.Fatal(err)
	}
}

func TestListenReportsEachNotificationUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	db, url := postgrestest.Migrated(t, notes)
	e := listenAt(t, url)
	for range 3 {
		notify(t, db)
		e.await(e.notified, "it hears nothing")
	}
	e.stop()
	if err := e.awaitEnd(3 * time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

// TestListenGoesOnAfterACheck waits until the connection has been checked.
func TestListenGoesOnAfterACheck(t *testing.T) {
	t.Parallel()
	db, url := postgrestest.Migrated(t, notes)
	e := listenAt(t, url)
	select {
	case err := <-e.ended:
		t.Fatalf("it has ended: %v", err)
	case <-time.After(11 * time.Second):
	}
	notify(t, db)
	e.await(e.notified, "it hears nothing")
}

// TestListenEndsWhenItsConnectionIsSilent freezes the connection: nothing arrives on it any more,
// and it is not closed.
func TestListenEndsWhenItsConnectionIsSilent(t *testing.T) {
	t.Parallel()
	_, direct := postgrestest.Migrated(t, notes)
	proxy, through := servers.ProxyFor(t, direct)
	e := listenAt(t, through)
	proxy.Freeze()
	if err := e.awaitEnd(listenTestTimeout); !postgres.Unavailable(err) {
		t.Errorf("error %v, want one that says that the database is away", err)
	}
}

func TestListenEndsInTimeOnASilentConnection(t *testing.T) {
	t.Parallel()
	_, direct := postgrestest.Migrated(t, notes)
	proxy, through := servers.ProxyFor(t, direct)
	e := listenAt(t, through)
	proxy.Freeze()
	e.stop()
	_ = e.awaitEnd(3 * time.Second)
}
