package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

// system is what one test has to itself.
type system struct {
	*testing.T
	*relay
	url, queue string
}

// newSystem has a queue that is bound with a routing key.
func newSystem(t *testing.T, bind string) *system {
	t.Helper()
	s := &system{T: t, url: servers.Database(t)}
	s.relay, s.queue = s.open(bind)
	return s
}

func (s *system) open(bind string) (*relay, string) {
	s.Helper()
	db, err := pgx.Connect(s.Context(), s.url)
	check.Must(s, err)
	s.Cleanup(func() { _ = db.Close(context.Background()) })
	broker, err := amqp.Dial(servers.BrokerURL(s))
	check.Must(s, err)
	s.Cleanup(func() { _ = broker.Close() })
	r, queue, err := open(s.Context(), db, broker, bind)
	check.Must(s, err)
	return r, queue
}

// another is a second relay of the same system.
func (s *system) another() *relay {
	s.Helper()
	r, _ := s.open("nothing")
	r.exchange = s.exchange
	return r
}

func (s *system) placeOrders(n int) {
	s.Helper()
	check.Must(s, s.place(s.Context(), n))
}

func (s *system) pass(r *relay, name string) int {
	s.Helper()
	step := steps[name]
	n, err := step.pass(r, s.Context(), step.publish(r))
	check.Must(s, err)
	return n
}

func (s *system) count(query string) int {
	s.Helper()
	return check.Value[int](s, s.db, query)
}

func (s *system) wantWaiting(want int) {
	s.Helper()
	if got := s.count("SELECT count(*) FROM outbox"); got != want {
		s.Errorf("%d events wait, want %d", got, want)
	}
}

func (s *system) wantReceived(want ...string) {
	s.Helper()
	got, err := s.received(s.queue)
	check.Must(s, err)
	if !slices.Equal(got, want) {
		s.Errorf("received %q, want %q", got, want)
	}
}

// TestRelaysOfEachStepPublishAllAndShareNothing lets three relays race.
func TestRelaysOfEachStepPublishAllAndShareNothing(t *testing.T) {
	t.Parallel()
	const orders, relays = 300, 3
	for name, step := range steps {
		s := newSystem(t, "order.*")
		s.placeOrders(orders)
		var race sync.WaitGroup
		for range relays {
			r := s.another()
			race.Go(func() {
				// Nothing to claim now can mean that the others have it all.
				for s.Context().Err() == nil {
					if _, err := r.drain(s.Context(), step); err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					var left int
					if err := r.db.QueryRow(s.Context(), "SELECT count(*) FROM outbox").Scan(&left); err != nil || left == 0 {
						return
					}
				}
			})
		}
		race.Wait()
		messages := 0
		for began := time.Now(); messages < 2*orders && time.Since(began) < 2*time.Minute; {
			keys, err := s.received(s.queue) // without confirms, some may still be on their way
			check.Must(s, err)
			messages += len(keys)
		}
		if messages != 2*orders {
			t.Errorf("%s: %d messages, want %d", name, messages, 2*orders)
		}
	}
}

// TestAnEventWithoutAQueueIsLostWithoutConfirms has a queue for one of the two events only.
func TestAnEventWithoutAQueueIsLostWithoutConfirms(t *testing.T) {
	t.Parallel()
	for name, waiting := range map[string]int{"locks": 0, "confirms": 1, "lease": 1, "order": 1} {
		s := newSystem(t, "order.created")
		s.placeOrders(1)
		s.pass(s.relay, name)
		s.wantWaiting(waiting)
		s.wantReceived("order.created")
	}
}

// TestNoTransactionIsOpenWhileThePublisherWaitsWithALease looks at the connection.
func TestNoTransactionIsOpenWhileThePublisherWaitsWithALease(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]byte{"locks": 'T', "confirms": 'T', "lease": 'I', "order": 'I'} {
		s := newSystem(t, "order.*")
		s.placeOrders(1)
		var got byte
		_, err := steps[name].pass(s.relay, t.Context(), func(context.Context, []event) ([]uuid.UUID, error) {
			got = s.db.PgConn().TxStatus()
			return nil, nil
		})
		check.Must(s, err)
		if got != want {
			t.Errorf("%s: the connection is in state %c, want %c", name, got, want)
		}
	}
}

// TestTheEventsOfADeadRelayWaitForItsLease has a relay that ends before it settles anything.
func TestTheEventsOfADeadRelayWaitForItsLease(t *testing.T) {
	t.Parallel()
	s := newSystem(t, "order.*")
	s.placeOrders(1)
	died := errors.New("died")
	_, err := s.passWithLease(t.Context(), func(context.Context, []event) ([]uuid.UUID, error) { return nil, died })
	if !errors.Is(err, died) {
		t.Fatal(err)
	}
	other := s.another()
	if n := s.pass(other, "lease"); n != 0 {
		t.Errorf("%d events are published under the lease of another relay", n)
	}
	for began := time.Now(); s.pass(other, "lease") == 0; {
		if time.Since(began) > 10*lease {
			t.Fatal("the lease does not end")
		}
	}
	s.wantReceived("order.created", "order.confirmed")
}

// TestAStaleRelayPutsNothingBack has a relay that sleeps beyond its lease. Another one has the
// events when it awakes.
func TestAStaleRelayPutsNothingBack(t *testing.T) {
	t.Parallel()
	s := newSystem(t, "order.*")
	s.placeOrders(1)
	other := s.another()
	published, err := s.passWithLease(t.Context(), func(ctx context.Context, _ []event) ([]uuid.UUID, error) {
		_, err := other.db.Exec(ctx, "UPDATE claims SET until = now()")
		check.Must(s, err)
		events, err := other.claim(ctx, leaseSQL, uuid.New())
		check.Must(s, err)
		if len(events) != 2 {
			t.Errorf("the other relay has %d events, want 2", len(events))
		}
		return nil, nil // the stale relay wants to put its events off
	})
	check.Must(s, err)
	if published != 0 || s.count("SELECT count(*) FROM outbox WHERE available_at <= now()") != 2 {
		t.Error("the stale relay has put off what another relay holds")
	}
	if s.count("SELECT count(*) FROM claims") != 1 {
		t.Error("the stale relay has ended the claim of another relay")
	}
}

// TestTheSecondEventOvertakesTheFirstUntilTheStepOrder has no queue for the first one.
func TestTheSecondEventOvertakesTheFirstUntilTheStepOrder(t *testing.T) {
	t.Parallel()
	for name, overtakes := range map[string]bool{"confirms": true, "lease": true, "order": false} {
		s := newSystem(t, "order.confirmed")
		s.placeOrders(1)
		s.pass(s.relay, name)
		if overtakes {
			s.wantReceived("order.confirmed")
			s.wantWaiting(1)
		} else {
			s.wantReceived()
			s.wantWaiting(2)
		}
	}
}
