package system

import (
	"testing"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
)

// shard is one database of order-service, with its own API and relay.
type shard struct {
	*system
	orders *service
}

// addShard starts order-service on a database of another server. It has the broker in common with
// s.
func (s *system) addShard(server *servers.PostgresServer) shard {
	s.Helper()
	other := *s
	other.database = server
	other.ordersDB, other.ordersRoles = other.createDatabase("shard_orders", services.Orders)
	return shard{&other, other.runOrders()}
}

// TestP1P5P7ShardsNeedNothingFromEachOther runs two databases of order-service, each with its own
// outbox and relay, and one broker and one notification-service for both.
func TestP1P5P7ShardsNeedNothingFromEachOther(t *testing.T) {
	t.Parallel()
	s, server := newSystem(t), servers.Postgres(t)
	copies := s.recordEvents()
	s.startConsumer()
	first, second := shard{s, s.runOrders()}, s.addShard(server)
	const each, events = 5, 2
	var all errgroup.Group
	for _, shard := range []shard{first, second} {
		for range each {
			all.Go(shard.placeAndConfirm)
		}
	}
	must(t, all.Wait())
	total := 2 * each * events
	s.awaitCount(s.notificationsDB, total, recordedCount)
	if n := s.wantVersionsInOrder(copies.await(total)); n != total {
		t.Errorf("%d different events came, want %d", n, total)
	}

	// The second shard loses its database. The first one does not notice it.
	must(t, server.Kill())
	if _, err := place(t.Context(), second.orders.address()); err == nil {
		t.Error("an order was taken without its database")
	}
	must(t, first.placeAndConfirm())
	total += events
	s.awaitCount(s.notificationsDB, total, recordedCount)

	must(t, server.Start(t.Context()))
	second.ordersDB.Reset() // its connections broke with the server
	second.awaitPlaced(second.orders.address())
	total = first.events() + second.events()
	s.awaitCount(s.notificationsDB, total, recordedCount)
	if n := s.wantVersionsInOrder(copies.await(total)); n != total {
		t.Errorf("%d different events came, want %d", n, total)
	}
	s.takeMessages(deadLetterQueue, 0)
}

// events returns the number of all events so far.
func (s shard) events() int {
	return queryValue[int](s.system, s.ordersDB, "SELECT count(*) FROM outbox_events")
}

// placeAndConfirm makes an order with two events.
func (s shard) placeAndConfirm() error {
	id, err := place(s.Context(), s.orders.address())
	if err == nil {
		_, _, err = call(s.Context(), s.orders.address()+"/orders/"+id+"/confirm", "")
	}
	return err
}
