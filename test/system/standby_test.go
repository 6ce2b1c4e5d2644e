package system

import (
	"context"
	"net/http"
	"testing"

	"example.com/transactional-outbox/test/env/servers"
)

// TestP1AnAcknowledgedOrderIsOnTheStandby: the synchronous standby is away, so no order is answered
// with 201, however often the client repeats it. A client hangs up, a request ends by its time
// limit, the process is stopped: the wait of the COMMIT goes on. Then an operator cancels this wait,
// and the order is visible on the primary alone. The first 201 comes when the standby is back, and
// a failover keeps the order.
func TestP1AnAcknowledgedOrderIsOnTheStandby(t *testing.T) {
	t.Parallel()
	s := newSystemOn(t, servers.Postgres(t), sharedBroker)
	standby := servers.Standby(t, s.database, "standby")
	api := s.runOrdersCommand("api")
	address := api.address()
	must(t, s.database.Synchronous(t.Context(), "standby"))
	must(t, standby.Kill())
	const (
		waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename LIKE 'order_service%'"
		visible = "SELECT count(*) FROM orders"
	)

	hangUp, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if status, _, err := placeAgain(hangUp, address); err == nil {
			t.Errorf("the first answer is %d", status)
		}
	}()
	s.awaitCount(s.ordersDB, 1, waiting)
	cancel()
	<-ended
	s.wantUnavailable(address) // it waits for the lock of the key for 5 s
	api.stop()                 // in time, and its end cancels nothing either
	s.awaitCount(s.ordersDB, 1, waiting)
	s.awaitCount(s.ordersDB, 0, visible)
	address = s.runOrdersCommand("api").address()

	s.exec(s.ordersDB, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	s.awaitCount(s.ordersDB, 1, visible)
	s.wantUnavailable(address)

	must(t, standby.Start(t.Context()))
	status, id, err := placeAgain(t.Context(), address)
	must(t, err)
	if status != http.StatusCreated {
		t.Fatalf("with the standby the answer is %d", status)
	}
	must(t, s.database.Kill())
	must(t, standby.Promote(t.Context()))
	name := s.ordersDB.Config().ConnConfig.Database
	var there bool
	row := s.connectTo(standby.URL(name)).QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM orders WHERE id::text = $1)", id)
	must(t, row.Scan(&there))
	if !there {
		t.Errorf("the failover has lost order %s, which was acknowledged", id)
	}
}

// placeAgain sends the same request with the same key.
func placeAgain(ctx context.Context, address string) (status int, id string, err error) {
	status, body, err := call(ctx, address+"/orders", orderBody, "Idempotency-Key: the-same")
	if err == nil {
		id, err = idIn(body)
	}
	return status, id, err
}

func (s *system) wantUnavailable(address string) {
	s.Helper()
	status, _, err := placeAgain(s.Context(), address)
	must(s.T, err)
	if status != http.StatusServiceUnavailable {
		s.Errorf("the answer is %d, and no standby has the order", status)
	}
}
