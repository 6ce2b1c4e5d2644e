package systemtest

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// load places orders from several clients until stop, and keeps a ledger.
type load struct {
	clients sync.WaitGroup
	ended   context.CancelFunc
	address atomic.Pointer[string]

	mu     sync.Mutex
	placed []string // what was answered with 201
	failed []error  // what was not
	news   chan struct{}
}

func (s *system) load(clients int, orders *service) *load {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context()) // ends the load, and no request
	l := &load{ended: cancel, news: make(chan struct{}, 1)}
	l.to(orders)
	for range clients {
		l.clients.Go(func() {
			for ctx.Err() == nil {
				id, err := place(s.Context(), *l.address.Load())
				l.mu.Lock()
				if err != nil { // refused, or not known
					l.failed = append(l.failed, err)
				} else {
					l.placed = append(l.placed, id)
				}
				l.mu.Unlock()
				if err != nil {
					continue
				}
				select {
				case l.news <- struct{}{}:
				default:
				}
			}
		})
	}
	s.Cleanup(func() { l.stop() })
	return l
}

// to sends the clients to another process.
func (l *load) to(orders *service) {
	address := orders.address()
	l.address.Store(&address)
}

// awaitMore waits until n more orders are placed.
func (l *load) awaitMore(t *testing.T, n int) {
	t.Helper()
	for target := l.count() + n; l.count() < target; {
		select {
		case <-l.news:
		case <-t.Context().Done():
			t.Fatal("no more orders are placed")
		}
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.placed)
}

func (l *load) stop() {
	l.ended()
	l.clients.Wait()
}

// wantAllOf wants every order of the ledger, its event, and its e-mail; lost none,
// and repeated at most so many.
func (s *system) wantAllOf(l *load, copies *tap, repeats int) {
	s.Helper()
	orders := one[int](s, s.orders, "SELECT count(*) FROM orders")
	s.awaitCount(s.orders, orders, published)
	s.awaitCount(s.notifications, orders, sent)
	known := one[int](s, s.orders, "SELECT count(*) FROM orders WHERE id = ANY ($1::uuid[])", l.placed)
	if known != l.count() || known == 0 {
		s.Errorf("%d of %d acknowledged orders exist", known, l.count())
	}
	copies.awaitMessages(orders)
	if got := copies.messages(); got != orders {
		s.Errorf("%d messages of %d orders", got, orders)
	}
	if got := copies.repeats(); got > repeats {
		s.Errorf("%d messages came twice, want at most %d", got, repeats)
	}
	extra := 0
	for _, letters := range s.mail.letters() {
		extra += len(letters) - 1
	}
	if got := len(s.mail.letters()); got != orders || extra > repeats {
		s.Errorf("e-mails of %d orders and %d repeats, want %d and at most %d", got, extra, orders, repeats)
	}
	s.Logf("%d orders acknowledged, %d committed, %d copies beyond the first", l.count(), orders, copies.repeats())
}

func TestP12SIGTERMUnderLoadLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.tap()
	notifications := s.runNotifications()
	notifications.await("taking messages")
	orders := s.runOrders()
	clients := s.load(8, orders)
	for range 3 {
		clients.awaitMore(t, 50)
		orders.stop()
		notifications.stop()
		orders, notifications = s.runOrders(), s.runNotifications()
		clients.to(orders)
	}
	clients.awaitMore(t, 20)
	clients.stop()
	s.wantAllOf(clients, copies, 0)
}

// TestP12SIGTERMOfARelayInMidBatchRepeatsNothing ends relays that have a batch in
// flight: the API is a process of its own, and its orders never stop coming.
func TestP12SIGTERMOfARelayInMidBatchRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.tap()
	s.runNotifications().await("taking messages")
	clients := s.load(8, s.runOrdersAs("api"))
	for range 5 {
		relay := s.runOrdersAs("relay", "RELAY_POLL_INTERVAL=10ms")
		relay.await("message published")
		clients.awaitMore(t, 50)
		relay.stop()
	}
	s.runOrdersAs("relay")
	clients.stop()
	s.wantAllOf(clients, copies, 0)
}

func TestP12SIGKILLUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	const (
		kills   = 3
		workers = 2
		batch   = 500
	)
	s := newSystem(t)
	copies := s.tap()
	// A short lease, so that what a killed relay held is published soon.
	settings := []string{"RELAY_LEASE=3s", "RELAY_CONFIRM_TIMEOUT=1s"}
	notifications := s.runNotifications()
	notifications.await("taking messages")
	orders := s.runOrders(settings...)
	clients := s.load(8, orders)
	for range kills {
		clients.awaitMore(t, 50)
		orders.kill()
		orders = s.runOrders(settings...)
		clients.to(orders)
	}
	clients.awaitMore(t, 20)
	clients.stop()
	s.wantAllOf(clients, copies, kills*workers*batch)
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	orders := s.runOrders()
	s.place(orders)
	// Held in its transaction, a request keeps the drain waiting.
	tx, err := s.orders.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "LOCK TABLE outbox_events")
	must(t, err)
	go func() { _, _ = place(t.Context(), orders.address()) }()
	s.awaitCount(s.orders, 1, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO outbox_events%'")
	orders.signal(syscall.SIGTERM)
	s.awaitRefused(orders)
	orders.signal(syscall.SIGTERM)
	orders.wait()
	if orders.command.ProcessState.Success() {
		t.Error("it ended well, with a request in hand")
	}
}
