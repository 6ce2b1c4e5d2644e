package order_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/test/env/servers"
)

// TestP2NothingIsLeftOfAnOrderThatFailed has a server that refuses the order, its event, or the
// commit. Package postgres tests what else ends a transaction.
func TestP2NothingIsLeftOfAnOrderThatFailed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refuse string // by the server
		want   string
	}{
		"the order is refused": {
			refuse: "ALTER TABLE orders ADD CHECK (quantity > 1)",
			want:   "inserting the order: ",
		},
		"the event is refused": {
			refuse: "ALTER TABLE outbox_events ADD CHECK (topic <> 'order.created')",
			want:   "appending to the outbox: ",
		},
		"the commit fails": {
			refuse: `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
				CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON orders
				DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`,
			want: "no",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.exec(test.refuse)
			if _, err := s.orders.Place(t.Context(), oneMug); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want it to say %q", err, test.want)
			}
			s.want(0, 0)
			if s.commits != 0 {
				t.Error("the relay was woken without a commit")
			}
		})
	}
}

// TestP1AnOrderAndItsEventAreBothThereOrNeither has clients that do not know whether their
// commit succeeded.
func TestP1AnOrderAndItsEventAreBothThereOrNeither(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		inCommit func(h *servers.HeldCommits, p *servers.Proxy, cancel context.CancelFunc)
		there    int
	}{
		"the connection is cut in the commit": {
			inCommit: func(_ *servers.HeldCommits, p *servers.Proxy, _ context.CancelFunc) { p.Cut() },
			there:    1,
		},
		"the answer to the commit is lost": {
			inCommit: func(h *servers.HeldCommits, p *servers.Proxy, _ context.CancelFunc) {
				p.Stall()
				h.Release()
				h.AwaitEnd()
				p.Cut()
			},
			there: 1,
		},
		"the context ends in the commit, and the server does not hear of it": {
			inCommit: func(_ *servers.HeldCommits, _ *servers.Proxy, cancel context.CancelFunc) { cancel() },
			there:    1,
		},
		"the server ends the session in the commit": {
			inCommit: func(h *servers.HeldCommits, _ *servers.Proxy, _ context.CancelFunc) { h.Terminate() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, direct, proxy := newShopBehindProxy(t)
			held := servers.HoldCommits(t, direct, "orders")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error)
			request := oneMug
			request.IdempotencyKey = "this-one"
			go func() { _, err := s.orders.Place(ctx, request); done <- err }()
			held.Await()
			proxy.Refuse(true) // so that no cancel request reaches the server
			test.inCommit(held, proxy, cancel)
			if err := <-done; err == nil {
				t.Error("Place returned no error, and cannot know that the order is there")
			}
			held.Release() // not before: the answer to the COMMIT could be faster than a cut or the driver
			held.AwaitEnd()
			proxy.Resume()
			proxy.Refuse(false)
			s.want(test.there, test.there)
			if s.commits != 0 {
				t.Error("the relay was woken although the result of the commit is unknown")
			}
			// The client repeats the request. Then there is one order in any case.
			if _, err := s.orders.Place(t.Context(), request); err != nil {
				t.Error(err)
			}
			s.want(1, 1)
		})
	}
}

// newShopBehindProxy returns a shop whose connections go through a proxy, and the URL of the
// database without the proxy.
func newShopBehindProxy(t *testing.T) (s *shop, direct string, proxy *servers.Proxy) {
	t.Helper()
	_, direct = postgrestest.Migrated(t, schema)
	proxy, url := servers.ProxyFor(t, direct)
	db, err := postgres.Open(t.Context(), url, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s = &shop{T: t, db: db}
	s.orders = order.NewService(s.db, func() { s.commits++ })
	return s, direct, proxy
}

// TestANewColumnDisturbsNothing of what a connection has prepared, and InGorm repeats nothing.
func TestANewColumnDisturbsNothing(t *testing.T) {
	t.Parallel()
	s, _, _ := newShopBehindProxy(t)
	use := func(key string) {
		placed, err := s.orders.Place(t.Context(), withKey(key))
		_, again := s.orders.Place(t.Context(), withKey(key))
		_, changed := s.orders.Confirm(t.Context(), placed.ID)
		_, _, found := s.orders.Get(t.Context(), placed.ID)
		_, listed := s.orders.Products(t.Context())
		if err := errors.Join(err, again, changed, found, listed); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		s.exec("SELECT pg_stat_force_next_flush()")
	}
	const rolledBack = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()"
	use("before")
	before := s.number(rolledBack)
	for _, table := range []string{"orders", "products", "idempotency_keys", "outbox_events", "outbox_queue"} {
		s.exec("ALTER TABLE " + table + " ADD COLUMN note text")
	}
	use("after")
	if n := s.number(rolledBack) - before; n != 0 {
		t.Errorf("%d transactions were rolled back", n)
	}
}
