package order_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/order-service/migrations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var schema = migrations.Schema

// shop has the orders in a database for this test.
type shop struct {
	*testing.T
	db      *postgres.DB
	orders  *order.Service
	commits int
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{T: t}
	s.db, _ = postgrestest.Migrated(t, schema)
	s.orders = order.NewService(s.db, func() { s.commits++ })
	return s
}

var oneMug = order.Request{ProductID: "sku123", Quantity: 1}

// want checks how many orders and events there are.
func (s *shop) want(orders, events int) {
	s.Helper()
	var got struct{ Orders, Events int }
	err := s.db.InGorm(context.WithoutCancel(s.Context()), func(tx *gorm.DB) error {
		return tx.Raw("SELECT (SELECT count(*) FROM orders) orders, (SELECT count(*) FROM outbox_events) events").Scan(&got).Error
	})
	if err != nil {
		s.Fatal(err)
	}
	if got.Orders != orders || got.Events != events {
		s.Errorf("%d orders and %d events, want %d and %d", got.Orders, got.Events, orders, events)
	}
}

func (s *shop) number(query string) (n int) {
	s.Helper()
	err := s.db.InGorm(s.Context(), func(tx *gorm.DB) error { return tx.Raw(query).Scan(&n).Error })
	if err != nil {
		s.Fatal(err)
	}
	return n
}

func (s *shop) exec(statement string) {
	s.Helper()
	if _, err := s.db.Pool().Exec(s.Context(), statement); err != nil {
		s.Fatal(err)
	}
}

func TestP1AnOrderAndItsEventAreCommittedTogether(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	placed, err := s.orders.Place(t.Context(), oneMug)
	if err != nil {
		t.Fatal(err)
	}
	s.want(1, 1)
	if s.commits != 1 {
		t.Errorf("the relay was woken %d times, want once", s.commits)
	}
	found, events, err := s.orders.Get(t.Context(), placed.ID)
	if err != nil {
		t.Fatal(err)
	}
	if found != placed {
		t.Errorf("found %+v, placed %+v", found, placed)
	}
	if len(events) != 1 || events[0].Topic != "order.created" || events[0].Status != "pending" {
		t.Errorf("events %+v, want one pending %s", events, "order.created")
	}
}

// TestTheNaiveWaysLose shows why the transaction is needed. It does the same two steps in two
// separate systems, and crashes between them. In either order one step is done and the other is
// lost. With the outbox, the second step is committed as an event.
func TestTheNaiveWaysLose(t *testing.T) {
	t.Parallel()
	const store = `INSERT INTO orders (id, version, customer_id, customer_email, product_id, quantity, amount, currency, status)
		VALUES (gen_random_uuid(), 1, gen_random_uuid(), '', 'sku123', 1, 2999, 'GBP', 'pending')`
	for name, way := range map[string]struct {
		untilTheCrash             func(s *shop, publish func())
		orders, events, published int
	}{
		"store, then publish: an order of which nobody will hear": {
			untilTheCrash: func(s *shop, _ func()) { s.exec(store) },
			orders:        1,
		},
		"publish, then store: news of an order that does not exist": {
			untilTheCrash: func(_ *shop, publish func()) { publish() },
			published:     1,
		},
		"outbox: the event waits with the order, for the next relay": {
			untilTheCrash: func(s *shop, _ func()) { _, _ = s.orders.Place(s.Context(), oneMug) },
			orders:        1, events: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			published := 0
			way.untilTheCrash(s, func() { published++ })
			s.want(way.orders, way.events)
			if published != way.published {
				t.Errorf("%d published, want %d", published, way.published)
			}
		})
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	known := uuid.New()
	tests := map[string]struct {
		request order.Request
		amount  int64
		err     error
	}{
		"price times quantity":     {request: order.Request{ProductID: "sku123", Quantity: 3}, amount: 3 * 2999},
		"a known customer":         {request: order.Request{ProductID: "sku124", Quantity: 1, CustomerID: known}, amount: 1250},
		"an unknown product":       {request: order.Request{ProductID: "nope", Quantity: 1}, err: order.ErrNoProduct},
		"a quantity of zero":       {request: order.Request{ProductID: "sku123"}, err: order.ErrQuantity},
		"a quantity out of bounds": {request: order.Request{ProductID: "sku123", Quantity: 10_001}, err: order.ErrQuantity},
	}
	for name, test := range tests {
		placed, err := s.orders.Place(t.Context(), test.request)
		if !errors.Is(err, test.err) {
			t.Errorf("%s: error %v, want %v", name, err, test.err)
		}
		if placed.Amount.Minor() != test.amount {
			t.Errorf("%s: amount %d, want %d", name, placed.Amount.Minor(), test.amount)
		}
		if err == nil && (placed.CustomerID == uuid.Nil || (test.request.CustomerID == known && placed.CustomerID != known)) {
			t.Errorf("%s: customer %s", name, placed.CustomerID)
		}
	}
	s.want(2, 2)
}
