package order_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/test/env/check"
)

type change func(context.Context, uuid.UUID) (order.Order, error)

func TestP1AChangeAndItsEventAreCommittedTogether(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for status, change := range map[order.Status]change{
		order.Confirmed: s.orders.Confirm, order.Cancelled: s.orders.Cancel,
	} {
		placed, err := s.orders.Place(t.Context(), oneMug)
		check.Must(t, err)
		changed, err := change(t.Context(), placed.ID)
		check.Must(t, err)
		want := placed
		want.Status, want.Version = status, 2
		found, events, err := s.orders.Get(t.Context(), placed.ID)
		if err != nil || changed != want || found != want {
			t.Errorf("changed to %+v, found %+v, want %+v; error %v", changed, found, want, err)
		}
		if len(events) != 2 || events[1].Topic != "order."+string(status) {
			t.Errorf("events %+v", events)
		}
	}
	if s.commits != 4 {
		t.Errorf("the relay was woken %d times, want 4", s.commits)
	}
}

func TestOnlyOneOfTwoConcurrentChangesSucceeds(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	placed, err := s.orders.Place(t.Context(), oneMug)
	check.Must(t, err)
	var (
		changes sync.WaitGroup
		won     atomic.Int32
	)
	quiet := order.NewService(s.db, func() {})
	for _, change := range []change{quiet.Confirm, quiet.Cancel, quiet.Confirm, quiet.Cancel} {
		changes.Go(func() {
			if _, err := change(t.Context(), placed.ID); err == nil {
				won.Add(1)
			}
		})
	}
	changes.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d changes won, want one", n)
	}
	s.want(1, 2)
}
