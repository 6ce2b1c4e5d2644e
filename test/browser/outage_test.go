package browser

import (
	"context"
	"testing"
)

// TestThePageSaysThatTheBrokerIsAway stops the broker of all tests. So it must not run beside
// others.
func TestThePageSaysThatTheBrokerIsAway(t *testing.T) { //nolint:paralleltest // see above
	s := newSite(t)
	operator := newPerson(t)
	operator.visit(s.orders.page + "/")
	operator.await(is("[data-live]", "Live"))
	operator.do(mark)
	t.Cleanup(func() { s.must(shared.Broker.Start(context.Background())) }) // the other tests need it
	s.must(shared.Broker.Stop(t.Context()))
	operator.await(shows("[data-gates]", "the relay waits for a session with the broker"))
	// Orders are still taken, and the page shows that they wait.
	s.place()
	operator.await(is(node("waiting"), "1"))
	s.must(shared.Broker.Start(t.Context()))
	operator.await(is("[data-gates]", ""))
	operator.await(is(node("waiting"), "0"))
	operator.await(is(node("published"), "1"))
	operator.wantMark()
}
