package order_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/order-service/internal/order"
)

// TestP2NothingIsLeftOfAnOrderThatFailed breaks the transaction when its last
// statement, the insert of the event, is on its way or done.
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
			refuse: "ALTER TABLE outbox_events ADD CHECK (event_key <> 'order.created')",
			want:   "appending order.created to the outbox: ",
		},
		"the commit fails": {
			refuse: `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
				CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON orders
				DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`,
			want: "committing: ",
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
				t.Error("the relay was woken for nothing")
			}
		})
	}
	errBusiness := errors.New("business says no")
	for name, test := range map[string]struct {
		then func(cancel context.CancelFunc) error // with everything done but the commit
		want error
	}{
		"an error":         {then: func(context.CancelFunc) error { return errBusiness }, want: errBusiness},
		"the context ends": {then: func(cancel context.CancelFunc) error { cancel(); return nil }, want: context.Canceled},
		"a panic":          {then: func(context.CancelFunc) error { panic(errBusiness) }, want: errBusiness},
	} {
		for where, send := range map[string]bool{"with the event queued": false, "with the event in the database": true} {
			t.Run(name+", "+where, func(t *testing.T) {
				t.Parallel()
				s := newShop(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if err := s.placeAnd(ctx, send, func() error { return test.then(cancel) }); !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				s.want(0, 0)
			})
		}
	}
}

// placeAnd does what Place does in its transaction, and then something else.
func (s *shop) placeAnd(ctx context.Context, send bool, then func() error) (err error) {
	defer func() {
		if panicked, ok := recover().(error); ok {
			err = panicked
		}
	}()
	return s.db.InTx(ctx, func(tx *postgres.Tx) error {
		if _, err := order.PlaceIn(ctx, tx, oneMug); err != nil {
			return err
		}
		if send {
			var events int
			if err := tx.Gorm(ctx).Raw("SELECT count(*) FROM outbox_events").Scan(&events).Error; err != nil || events != 1 {
				s.Errorf("%d events, want the order's; error %v", events, err)
			}
		}
		return then()
	})
}

// TestP1AnOrderAndItsEventAreBothThereOrNeither when it is not known whether the
// commit took place.
func TestP1AnOrderAndItsEventAreBothThereOrNeither(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		inCommit func(h *servertest.HeldCommits, p *servertest.Proxy, cancel context.CancelFunc)
		there    int
	}{
		"the connection is cut in the commit": {
			inCommit: func(h *servertest.HeldCommits, p *servertest.Proxy, _ context.CancelFunc) { p.Cut(); h.Release() },
			there:    1,
		},
		"the answer to the commit is lost": {
			inCommit: func(h *servertest.HeldCommits, p *servertest.Proxy, _ context.CancelFunc) {
				p.Stall()
				h.Release()
				h.AwaitEnd()
				p.Cut()
			},
			there: 1,
		},
		"the context ends in the commit, and the server does not hear of it": {
			inCommit: func(h *servertest.HeldCommits, _ *servertest.Proxy, cancel context.CancelFunc) { cancel(); h.Release() },
			there:    1,
		},
		"the server ends the session in the commit": {
			inCommit: func(h *servertest.HeldCommits, _ *servertest.Proxy, _ context.CancelFunc) { h.Terminate() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, direct, proxy := newShopBehindProxy(t)
			held := servertest.HoldCommits(t, direct, "orders")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error)
			request := oneMug
			request.IdempotencyKey = "this-one"
			go func() { _, err := s.orders.Place(ctx, request); ended <- err }()
			held.Await()
			proxy.Refuse(true) // so that the server is not asked to break it off
			test.inCommit(held, proxy, cancel)
			if err := <-ended; err == nil {
				t.Error("Place returned no error, and cannot know that the order is there")
			}
			held.AwaitEnd()
			proxy.Resume()
			proxy.Refuse(false)
			s.want(test.there, test.there)
			if s.commits != 0 {
				t.Error("the relay was woken for an order of which nothing is known")
			}
			held.Release()
			// The client asks again, and there is one order then, whatever there was.
			if _, err := s.orders.Place(t.Context(), request); err != nil {
				t.Error(err)
			}
			s.want(1, 1)
		})
	}
}

// newShopBehindProxy is one whose connections can be hurt. It returns the way around the
// proxy as well.
func newShopBehindProxy(t *testing.T) (s *shop, direct string, proxy *servertest.Proxy) {
	t.Helper()
	_, direct = servertest.Migrated(t, schema)
	proxy, url := servertest.Proxied(t, direct)
	db, err := postgres.Open(t.Context(), url, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s = &shop{T: t, db: db}
	s.orders = order.NewService(s.db, func() { s.commits++ })
	return s, direct, proxy
}
