package order_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/order"
)

func withKey(key string) order.Request {
	r := oneMug
	r.IdempotencyKey = key
	return r
}

func TestFiftyRequestsWithOneKeyAreOneOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	orders := order.NewService(s.db, func() {})
	var mu sync.Mutex
	placed := map[uuid.UUID]int{}
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			o, err := orders.Place(t.Context(), withKey("one"))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			placed[o.ID]++
		})
	}
	clients.Wait()
	if len(placed) != 1 {
		t.Errorf("%d different orders", len(placed))
	}
	s.want(1, 1)
}

// TestARepeatGetsTheOrderAsItIsNow, and another request with its key gets an error.
func TestARepeatGetsTheOrderAsItIsNow(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	first, err := s.orders.Place(t.Context(), withKey("one"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.orders.Confirm(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	again, err := s.orders.Place(t.Context(), withKey("one"))
	if err != nil || again.ID != first.ID || again.Status != order.Confirmed {
		t.Errorf("%+v, error %v; want order %s, confirmed", again, err, first.ID)
	}
	for name, change := range map[string]func(*order.Request){
		"quantity": func(r *order.Request) { r.Quantity = 2 },
		"customer": func(r *order.Request) { r.CustomerID = uuid.New() },
		"e-mail":   func(r *order.Request) { r.CustomerEmail = "ada@example.com" },
	} {
		other := withKey("one")
		change(&other)
		if _, err := s.orders.Place(t.Context(), other); !errors.Is(err, order.ErrKeyReused) {
			t.Errorf("another %s: error %v, want %v", name, err, order.ErrKeyReused)
		}
	}
	if _, err := s.orders.Place(t.Context(), withKey("two")); err != nil {
		t.Error(err)
	}
	s.want(2, 3)
}

// TestOldKeysArePruned, and only they. It counts the rows of sequential scans: without the index,
// each batch would read all keys.
func TestOldKeysArePruned(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_order_id_fkey")
	s.exec("ALTER TABLE idempotency_keys SET (autovacuum_enabled = off)")
	for _, age := range []string{"61 minutes", "59 minutes"} {
		s.exec(`INSERT INTO idempotency_keys SELECT gen_random_uuid()::text, sha256('x'), gen_random_uuid(), now() - interval '` + age + `'
			FROM generate_series(1, 10000)`)
	}
	s.exec("ANALYZE idempotency_keys")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.orders.KeepPruned(ctx, time.Hour) }()
	const counters = "FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'"
	for s.number("SELECT n_tup_del "+counters) < 10_000 && t.Context().Err() == nil {
		time.Sleep(10 * time.Millisecond) // the server updates its counters only from time to time
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := s.number("SELECT seq_tup_read " + counters); n > 10_000 {
		t.Errorf("%d rows are read by sequential scans to prune 10,000 of 20,000", n)
	}
	if n := s.number("SELECT count(*) FROM idempotency_keys WHERE created_at > now() - interval '1 hour'"); n != 10_000 {
		t.Errorf("%d young keys are left, want all", n)
	}
}
