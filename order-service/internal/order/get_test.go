package order_test

import (
	"math"
	"sync/atomic"
	"testing"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/test/servers"
)

// TestGetWaitsForTheServerTwice: at most once for its queries and once for the commit.
func TestGetWaitsForTheServerTwice(t *testing.T) {
	t.Parallel()
	_, direct := servers.Migrated(t, schema)
	proxy, through := servers.ProxyFor(t, direct)
	db, err := postgres.Open(t.Context(), through, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	orders := order.NewService(db, func() {})
	placed, err := orders.Place(t.Context(), oneMug)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	proxy.DropReply(func([]byte) bool { requests.Add(1); return false })
	fewest := int64(math.MaxInt64)
	for range 5 { // the first prepares statements, and the pool may check its connection
		before := requests.Load()
		found, events, err := orders.Get(t.Context(), placed.ID)
		if err != nil || found != placed || len(events) != 1 {
			t.Fatalf("got %+v with %d events, error %v", found, len(events), err)
		}
		fewest = min(fewest, requests.Load()-before)
	}
	if fewest > 2 {
		t.Errorf("%d requests to the server", fewest)
	}
}
