package wakeup_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/wakeup"
	"example.com/transactional-outbox/test/servers"
)

// waitTimeout bounds each wait of these tests.
const waitTimeout = 20 * time.Second

// pair is a notifier and a listener on one database.
type pair struct {
	*testing.T
	notifier *wakeup.Notifier
	woken    chan struct{}
	registry *prometheus.Registry
	admin    *pgx.Conn
	proxy    *servers.Proxy // between the listener and the database
}

func newPair(t *testing.T) *pair {
	t.Helper()
	url := servers.Database(t)
	p := &pair{T: t, woken: make(chan struct{}, 1), registry: prometheus.NewRegistry()}
	var err error
	if p.admin, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.admin.Close(context.Background()) })
	db, err := postgres.Open(t.Context(), url, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	p.notifier = wakeup.NewNotifier(db)
	p.run(func(ctx context.Context) error { return p.notifier.Run(ctx, nil) })
	proxy, through := servers.ProxyFor(t, url)
	p.proxy = proxy
	p.run(wakeup.NewListener(through, p.wake, p.registry).Run)
	p.awaitWakeUp("it begins to listen")
	return p
}

// run runs do until the test ends, and wants that it returns no error.
func (p *pair) run(do func(context.Context) error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(p.Context()))
	done := make(chan error)
	go func() { done <- do(ctx) }()
	p.Cleanup(func() {
		stop()
		select {
		case err := <-done:
			if err != nil {
				p.Error(err)
			}
		case <-time.After(waitTimeout):
			p.Error("it does not stop")
		}
	})
}

func (p *pair) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

func (p *pair) awaitWakeUp(when string) {
	p.Helper()
	select {
	case <-p.woken:
	case <-time.After(waitTimeout):
		p.Fatalf("no wake-up when %s", when)
	}
}

func (p *pair) listening() float64 {
	p.Helper()
	return testutil.ToFloat64(p.registry)
}

// terminate terminates the listening session, and reports whether there was one.
func (p *pair) terminate() (ended bool) {
	p.Helper()
	err := p.admin.QueryRow(p.Context(), `SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN %'`).Scan(&ended)
	if err != nil {
		p.Fatal(err)
	}
	return ended
}

func TestACommitWakesTheRelayOfAnotherProcess(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for range 3 {
		p.notifier.Committed()
		p.awaitWakeUp("another process commits")
	}
	if p.listening() != 1 {
		t.Error("outbox_relay_listening is not 1")
	}
}

func TestATerminatedListenerListensAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for range 2 {
		if !p.terminate() {
			t.Fatal("no session listens")
		}
		p.awaitWakeUp("it listens again: events may have been committed meanwhile")
		p.notifier.Committed()
		p.awaitWakeUp("another process commits")
	}
}

func TestAListenerReconnectsToTheDatabase(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.proxy.Refuse(true)
	before := p.proxy.Accepted()
	p.proxy.Cut()
	for deadline := time.Now().Add(waitTimeout); p.proxy.Accepted() < before+3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not try again")
		}
	}
	if p.listening() != 0 {
		t.Error("outbox_relay_listening is not 0")
	}
	p.proxy.Refuse(false)
	p.awaitWakeUp("the database is back")
	p.notifier.Committed()
	p.awaitWakeUp("another process commits")
}
