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

	"example.com/transactional-outbox/test/servers"
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
	s.must(err)
	s.Cleanup(func() { _ = db.Close(context.Background()) })
	broker, err := amqp.Dial(servers.BrokerURL(s))
	s.must(err)
	s.Cleanup(func() { _ = broker.Close() })
	r, queue, err := open(s.Context(), db, broker, bind)
	s.must(err)
	return r, queue
}

// another is a second relay of the same system.
func (s *system) another() *relay {
	s.Helper()
	r, _ := s.open("nothing")
	r.exchange = s.exchange
	return r
}

func (s *system) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *system) placeOrders(n int) {
	s.Helper()
	s.must(s.place(s.Context(), n))
}

func (s *system) pass(r *relay, number int) int {
	s.Helper()
	c := chapters[number]
	n, err := c.pass(r, s.Context(), c.publish(r))
	s.must(err)
	return n
}

func (s *system) count(query string) (n int) {
	s.Helper()
	s.must(s.db.QueryRow(s.Context(), query).Scan(&n))
	return n
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
	s.must(err)
	if !slices.Equal(got, want) {
		s.Errorf("received %q, want %q", got, want)
	}
}

// TestRelaysOfEachChapterPublishAllAndShareNothing lets three relays race.
func TestRelaysOfEachChapterPublishAllAndShareNothing(t *testing.T) {
	t.Parallel()
	const orders, relays = 300, 3
	for number, c := range chapters {
		s := newSystem(t, "order.*")
		s.placeOrders(orders)
		var race sync.WaitGroup
		for range relays {
			r := s.another()
			race.Go(func() {
				// Nothing to claim now can mean that the others have it all.
				for s.Context().Err() == nil {
					if _, err := r.drain(s.Context(), c); err != nil {
						t.Errorf("chapter %d: %v", number, err)
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
		for began := time.Now(); messages < 2*orders && time.Since(began) < time.Minute; {
			keys, err := s.received(s.queue) // those of chapter 3 may still be on their way
			s.must(err)
			messages += len(keys)
		}
		if messages != 2*orders {
			t.Errorf("chapter %d: %d messages, want %d", number, messages, 2*orders)
		}
	}
}

// TestAnEventWithoutAQueueIsLostUntilChapter4 has a queue for one of the two events only.
func TestAnEventWithoutAQueueIsLostUntilChapter4(t *testing.T) {
	t.Parallel()
	for number, waiting := range map[int]int{3: 0, 4: 1, 5: 1, 6: 1} {
		s := newSystem(t, "order.created")
		s.placeOrders(1)
		s.pass(s.relay, number)
		s.wantWaiting(waiting)
		s.wantReceived("order.created")
	}
}

// TestNoTransactionIsOpenWhileThePublisherWaitsFromChapter5 looks at the connection.
func TestNoTransactionIsOpenWhileThePublisherWaitsFromChapter5(t *testing.T) {
	t.Parallel()
	for number, want := range map[int]byte{3: 'T', 4: 'T', 5: 'I', 6: 'I'} {
		s := newSystem(t, "order.*")
		s.placeOrders(1)
		var got byte
		_, err := chapters[number].pass(s.relay, t.Context(), func(context.Context, []event) ([]uuid.UUID, error) {
			got = s.db.PgConn().TxStatus()
			return nil, nil
		})
		s.must(err)
		if got != want {
			t.Errorf("chapter %d: the connection is in state %c, want %c", number, got, want)
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
	if n := s.pass(other, 5); n != 0 {
		t.Errorf("%d events are published under the lease of another relay", n)
	}
	for began := time.Now(); s.pass(other, 5) == 0; {
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
		s.must(err)
		events, err := other.claim(ctx, leaseSQL, uuid.New())
		s.must(err)
		if len(events) != 2 {
			t.Errorf("the other relay has %d events, want 2", len(events))
		}
		return nil, nil // the stale relay wants to put its events off
	})
	s.must(err)
	if published != 0 || s.count("SELECT count(*) FROM outbox WHERE available_at <= now()") != 2 {
		t.Error("the stale relay has put off what another relay holds")
	}
	if s.count("SELECT count(*) FROM claims") != 1 {
		t.Error("the stale relay has ended the claim of another relay")
	}
}

// TestTheSecondEventOvertakesTheFirstUntilChapter6 has no queue for the first one.
func TestTheSecondEventOvertakesTheFirstUntilChapter6(t *testing.T) {
	t.Parallel()
	for number, overtakes := range map[int]bool{4: true, 5: true, 6: false} {
		s := newSystem(t, "order.confirmed")
		s.placeOrders(1)
		s.pass(s.relay, number)
		if overtakes {
			s.wantReceived("order.confirmed")
			s.wantWaiting(1)
		} else {
			s.wantReceived()
			s.wantWaiting(2)
		}
	}
}
