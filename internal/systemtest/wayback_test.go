package systemtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/servertest"
)

// hurry makes the broker look again after 3 s for a queue that was not there when it
// had a message for it, and not after 180. It counts for queues declared later.
func hurry(t *testing.T, broker *servertest.RabbitMQServer) {
	t.Helper()
	_, err := broker.Ctl(t.Context(), "eval", "application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 3000).")
	must(t, err)
}

// TestP5TheWayBackFromARetryLosesNothing takes away what messages come back to, while
// they wait in a retry queue.
func TestP5TheWayBackFromARetryLosesNothing(t *testing.T) {
	t.Parallel()
	const n, tier = 20, retry + "20s" // on a busy machine, taking things away takes more than 5 s
	for gone, test := range map[string]struct {
		goes func(*system, *service)
		back func(*system)
	}{
		"the queue, with the service away": {
			func(s *system, running *service) {
				running.kill()
				s.at(func(c *amqp.Channel) error { _, err := c.QueueDelete(mainQueue, false, false, false); return err })
			},
			func(s *system) { s.consuming("RETRY_DELAYS=20s") },
		},
		"the exchange that leads back, with the service away": {
			func(s *system, running *service) {
				running.kill()
				s.at(func(c *amqp.Channel) error { return c.ExchangeDelete(requeueX, false, false) })
			},
			func(s *system) { s.consuming("RETRY_DELAYS=20s") },
		},
		"the exchange that leads back, and the service makes it again": {
			func(s *system, _ *service) {
				s.at(func(c *amqp.Channel) error { return c.ExchangeDelete(requeueX, false, false) })
			},
			func(*system) {},
		},
	} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			hurry(t, broker)
			s := newSystem(t)
			copies := s.witness(tier)
			orders := ordersOf(n)
			for i := range orders {
				s.mail.refuse(fmt.Sprintf("customer-%d@example.com", i), refused(451, 1))
			}
			running := s.consuming("RETRY_DELAYS=20s")
			s.emit(orders...)
			copies.await(n)
			test.goes(s, running)
			s.awaitExpired(tier)
			if test.back(s); s.Failed() {
				return
			}
			s.endLeases()
			s.awaitCount(s.notifications, n, sent)
			s.wantOneLetterEach(orders...)
			s.wantNoneDead()
		})
	}
}

// awaitExpired waits until the messages in a retry queue are over their time. Those
// that find no way back are still in it, and nobody is given them.
func (s *system) awaitExpired(tier string) {
	s.Helper()
	ask := time.NewTicker(50 * time.Millisecond)
	defer ask.Stop()
	s.at(func(c *amqp.Channel) error {
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-ask.C {
			q, err := c.QueueDeclarePassive(tier, true, false, false, false, nil)
			if err != nil || q.Messages == 0 {
				return err
			}
		}
		return fmt.Errorf("the messages in %s do not expire", tier)
	})
}

// TestP9WhereNoCopyCanBeMadeNothingIsLost takes away where copies go to. The service
// makes it again, and what failed meanwhile waits for that.
func TestP9WhereNoCopyCanBeMadeNothingIsLost(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	orders, bad := s.troubled(5)
	running := s.consuming(quick)
	s.at(func(c *amqp.Channel) error {
		must(t, c.ExchangeDelete(deadLetterX, false, false))
		_, err := c.QueueDelete(quickTiers[0], false, false, false)
		return err
	})
	s.emit(append(orders, bad...)...)
	running.await("no copy yet, trying again")
	s.awaitCount(s.notifications, len(orders), sent)
	s.wantOneLetterEach(orders...)
	s.wantDead(bad)
}

// TestP9AnAlarmHoldsUpWhatFailsAndNothingElse has a broker without memory: it takes no
// copies, and still gives messages.
func TestP9AnAlarmHoldsUpWhatFailsAndNothingElse(t *testing.T) {
	t.Parallel()
	const each = 5
	g := &gated{broker: servertest.RabbitMQ(t)}
	g.system = newSystemOn(t, database, g.broker)
	s := g.system
	orders, bad := s.troubled(each)
	s.consuming(quick).kill()
	s.emit(append(orders, bad...)...)
	g.alarm(true)
	running := s.runNotifications(quick)
	s.awaitCount(s.notifications, each, sent)
	running.await("no copy yet, trying again")
	s.awaitHeld(2 * each)

	g.alarm(false)
	s.awaitCount(s.notifications, len(orders), sent)
	s.wantOneLetterEach(orders...)
	s.wantDead(bad)
}

// troubled are orders of which as many can be told at once as need a retry, and messages
// that nobody can read.
func (s *system) troubled(each int) (orders, bad []amqp.Publishing) {
	s.Helper()
	for i := range 2 * each {
		orders = append(orders, orderOf(fmt.Sprintf("customer-%d@example.com", i)))
		if i >= each {
			s.mail.refuse(fmt.Sprintf("customer-%d@example.com", i), refused(451, 1))
		}
	}
	for range each {
		m := orderOf("nobody")
		bad = append(bad, m)
	}
	return orders, bad
}

// awaitHeld waits until so many messages are in the service's queue, out or not, and none
// anywhere else: the broker counts every 5 s.
func (s *system) awaitHeld(n float64) {
	s.Helper()
	ask := time.NewTicker(500 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); ; <-ask.C {
		queues := s.list("queues", "name", "messages")
		other := slices.IndexFunc(queues, func(q map[string]any) bool {
			return q["name"] == mainQueue && q["messages"] != n || q["name"] != mainQueue && q["messages"] != 0.0
		})
		if other < 0 {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("the queues hold %v, want %v in that of the service", queues, n)
		}
	}
}

// wantDead waits for these dead letters, and takes repeats: of a copy whose confirm was
// lost there may be two.
func (s *system) wantDead(bad []amqp.Publishing) {
	s.Helper()
	missing := map[string]amqp.Publishing{}
	for _, m := range bad {
		missing[m.MessageId] = m
	}
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	s.at(func(c *amqp.Channel) error {
		for deadline := time.Now().Add(patience); len(missing) > 0; {
			d, ok, err := c.Get(deadLetters, true)
			m, wanted := missing[d.MessageId]
			switch {
			case err != nil:
				return err
			case wanted:
				wantUnchanged(s.T, d, m)
				delete(missing, d.MessageId)
			case !ok && time.Now().After(deadline):
				return fmt.Errorf("%d dead letters are missing", len(missing))
			case !ok:
				<-ask.C
			}
		}
		return nil
	})
}
