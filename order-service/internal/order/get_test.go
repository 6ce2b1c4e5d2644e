package order_test

import (
	"math"
	"sync/atomic"
	"testing"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/order-service/internal/order"
)

// TestGetWaitsForTheServerTwice at most: for what it reads, and for the commit.
func TestGetWaitsForTheServerTwice(t *testing.T) {
	t.Parallel()
	_, direct := servertest.Migrated(t, schema)
	proxy, through := servertest.Proxied(t, direct)
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
	for range 5 { // the first prepares its statements, and a pool may ask whether its connection lives
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
