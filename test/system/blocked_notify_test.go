package system

import (
	"context"
	"sync"
	"testing"
	"time"

	"example.com/transactional-outbox/test/servers"
)

// TestABlockedNotifyDelaysNoOrder holds the lock that every NOTIFY needs at its commit. An
// order whose own transaction notified would wait for it.
func TestABlockedNotifyDelaysNoOrder(t *testing.T) {
	t.Parallel()
	const orders, each = 10, 5 * time.Second
	s := newSystemOn(t, servers.Postgres(t), sharedBroker)
	release := s.blockNotify()
	api := s.runOrdersCommand("api")
	for range orders {
		began := time.Now()
		s.place(api)
		if took := time.Since(began); took > each {
			t.Errorf("an order took %s", took)
		}
	}
	api.awaitLog(logCannotNotify)
	s.startListeningRelay()
	s.wantAllPublished() // a relay polls once when it starts to listen
	release()
	s.placeAndWantPublished(api, 1)
}

// TestABlockedNotifyDelaysNoShutdown has a limit that is far below that of P12.
func TestABlockedNotifyDelaysNoShutdown(t *testing.T) {
	t.Parallel()
	const limit = 6 * time.Second
	s := newSystemOn(t, servers.Postgres(t), sharedBroker)
	s.blockNotify()
	for _, command := range []string{"api", "serve"} {
		orders := s.runOrdersCommand(command)
		s.place(orders)
		began := time.Now()
		orders.stop()
		if took := time.Since(began); took > limit {
			t.Errorf("%s ended after %s, want at most %s", command, took, limit)
		}
	}
}

// blockNotify holds the lock that a NOTIFY takes until the end of its commit: this commit
// waits for a standby that does not exist. The commits of order-service wait for no standby.
func (s *system) blockNotify() (release func()) {
	s.Helper()
	admin, holder := s.connectTo(s.superuserURL("order_service")), s.connectTo(s.superuserURL("order_service"))
	for _, statement := range []string{
		"ALTER ROLE order_service SET synchronous_commit = local",
		"ALTER SYSTEM SET synchronous_standby_names = 'missing'",
		"SELECT pg_reload_conf()",
	} {
		_, err := admin.Exec(s.Context(), statement)
		must(s.T, err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil { // until the server has the new setting
			_, _ = holder.Exec(ctx, "CREATE TABLE held (); DROP TABLE held; NOTIFY held")
		}
	}()
	release = func() { cancel(); <-ended }
	s.Cleanup(release)
	s.awaitCount(s.ordersDB, 1, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	return release
}

// TestNotifyAddsNoDelayWhenTheDatabaseStalls compares a process that notifies with one that
// does not. The database stops answering both.
func TestNotifyAddsNoDelayWhenTheDatabaseStalls(t *testing.T) {
	t.Parallel()
	const slack = 2 * time.Second
	s := newSystem(t)
	took := map[string]time.Duration{}
	var mu sync.Mutex
	var both sync.WaitGroup
	for _, setting := range []string{"OUTBOX_NOTIFY=true", "OUTBOX_NOTIFY=false"} {
		proxy, throughProxy := s.ordersDatabaseProxy()
		api := s.runOrdersCommand("api", throughProxy, setting)
		s.place(api)
		proxy.Stall()
		both.Go(func() {
			began := time.Now()
			_, err := place(context.WithoutCancel(t.Context()), api.address())
			if err == nil {
				t.Error("an order was placed without a database")
			}
			mu.Lock()
			defer mu.Unlock()
			took[setting] = time.Since(began)
		})
	}
	both.Wait()
	t.Log(took)
	if took["OUTBOX_NOTIFY=true"] > took["OUTBOX_NOTIFY=false"]+slack {
		t.Errorf("answered after %v", took)
	}
}
