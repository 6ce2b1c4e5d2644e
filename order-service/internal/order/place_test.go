package order_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/test/env/check"
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
	check.Must(s, err)
	if got.Orders != orders || got.Events != events {
		s.Errorf("%d orders and %d events, want %d and %d", got.Orders, got.Events, orders, events)
	}
}

func (s *shop) number(query string) int {
	s.Helper()
	return check.Value[int](s, s.db.Pool(), query)
}

func (s *shop) exec(statement string) {
	s.Helper()
	check.Exec(s, s.db.Pool(), statement)
}

func TestP1AnOrderAndItsEventAreCommittedTogether(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	placed, err := s.orders.Place(t.Context(), oneMug)
	check.Must(t, err)
	s.want(1, 1)
	if placed.CustomerID == uuid.Nil || placed.Amount != order.NewMoney(2999, "GBP") {
		t.Errorf("placed %+v, want an id of a customer and the price", placed)
	}
	if s.commits != 1 {
		t.Errorf("the relay was woken %d times, want once", s.commits)
	}
	found, events, err := s.orders.Get(t.Context(), placed.ID)
	check.Must(t, err)
	if found != placed {
		t.Errorf("found %+v, placed %+v", found, placed)
	}
	if len(events) != 1 || events[0].Topic != "order.created" || events[0].Status != "pending" {
		t.Errorf("events %+v, want one pending %s", events, "order.created")
	}
}
