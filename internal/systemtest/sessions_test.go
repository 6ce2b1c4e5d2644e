package systemtest

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/servertest"
)

// TestASessionThatEndsIsFollowedByAnother ends the sessions of a service in every way
// that the broker or the network has.
func TestASessionThatEndsIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*system, *servertest.Proxy) error{
		"its connections are cut":   func(_ *system, p *servertest.Proxy) error { p.Cut(); return nil },
		"its connections are reset": func(_ *system, p *servertest.Proxy) error { p.Reset(); return nil },
		"an operator closes them": func(s *system, _ *servertest.Proxy) error {
			_, err := broker.Ctl(s.Context(), "close_all_connections", "--vhost", s.vhost(), "test")
			return err
		},
		// The broker cancels the consumer; connection and channel stay open.
		"its queue is deleted": func(s *system, _ *servertest.Proxy) error {
			s.at(func(c *amqp.Channel) error {
				_, err := c.QueueDelete(mainQueue, false, false, false)
				return err
			})
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			proxy, throughProxy := s.proxied(notificationService)
			s.consuming(throughProxy)
			events := newEvents(3)
			for i, e := range events {
				began := time.Now()
				s.post(e)
				s.awaitCount(s.notifications, i+1, sent)
				t.Logf("notification %d after %s", i, time.Since(began).Round(time.Millisecond))
				must(t, end(s, proxy))
			}
			s.wantOnce(events)
		})
	}
}

// TestAConsumerThatTheBrokerLostPatienceWithTakesMessagesAgain holds a handler until
// the broker closes its channel (RabbitMQ 3) or cancels its consumer (4). The limit is
// 30 minutes and looked at once a minute, so this broker is set up by the test.
func TestAConsumerThatTheBrokerLostPatienceWithTakesMessagesAgain(t *testing.T) {
	t.Parallel()
	impatient := servertest.RabbitMQ(t)
	for name, milliseconds := range map[string]int{"consumer_timeout": 1500, "channel_tick_interval": 200} {
		_, err := impatient.Ctl(t.Context(), "eval", fmt.Sprintf("application:set_env(rabbit, %s, %d).", name, milliseconds))
		must(t, err)
	}
	s := newSystemOn(t, database, impatient)
	slow := s.consuming("CONSUMER_WORKERS=2")
	events := newEvents(3)
	s.post(events[0]) // from here on it takes more than one message at a time
	s.awaitCount(s.notifications, 1, sent)

	asked, answer := s.mail.hold(events[1])
	s.post(events[1])
	<-asked
	s.awaitReady(1) // the broker has taken the message back
	before, began := slow.lines(), time.Now()
	answer(nil)
	slow.awaitAfter(before, "taking messages")
	t.Logf("a new session %s after the handler ended", time.Since(began).Round(time.Millisecond))
	s.post(events[2])
	s.awaitCount(s.notifications, 3, sent)
	s.awaitOutcomes(3, []*service{slow}, "success", "duplicate")
	s.wantOnce(events)
}

// TestAStaleAckRemovesNoOtherMessage cuts the connection under a slow handler and its
// prefetched neighbours. When the handler is done, its ack is from another session:
// its number would be that of a neighbour. The process dies before it can make good
// for a neighbour that the broker forgot.
func TestAStaleAckRemovesNoOtherMessage(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	proxy, throughProxy := s.proxied(notificationService)
	slow := s.consuming(throughProxy, "CONSUMER_WORKERS=1", "CONSUMER_PREFETCH=8")
	events := newEvents(10)
	s.post(events[:4]...) // lets the numbers run ahead of those of the next session
	s.awaitCount(s.notifications, 4, sent)

	asked, answer := s.mail.hold(events[4])
	s.post(events[4])
	<-asked
	s.post(events[5:]...)
	s.awaitReady(0) // the others are in its hands as well
	release := s.lockInbox()
	proxy.Cut()
	s.awaitTakenAgain(time.Now().Add(6 * time.Second))
	s.awaitCount(s.notifications, 1, waitingForInbox) // the neighbours, in the next session

	answer(nil)
	s.awaitCount(s.notifications, 5, sent)
	slow.kill()
	release()

	next := s.runNotifications()
	s.awaitCount(s.notifications, len(events), sent)
	s.awaitOutcomes(len(events)-4, []*service{next}, "success", "duplicate")
	s.wantOnce(events)
}

const waitingForInbox = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO processed_messages%'"

// awaitTakenAgain gives a service that reconnects behind its handler's back the time to
// do so: the client library's own recovery begins after 5 s.
func (s *system) awaitTakenAgain(deadline time.Time) {
	s.Helper()
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	back := false
	for time.Now().Before(deadline) && (!back || s.ready() > 0) {
		back = back || s.ready() > 0
		<-ask.C
	}
}

// TestEveryCutLeavesOneEffect cuts the connections of many workers, of which one waits
// for the mail server.
func TestEveryCutLeavesOneEffect(t *testing.T) {
	t.Parallel()
	const cuts, each = 3, 40
	s := newSystem(t)
	proxy, throughProxy := s.proxied(notificationService)
	s.consuming(throughProxy)
	events := newEvents(cuts * each)
	for some := range cuts {
		batch := events[some*each:][:each]
		asked, answer := s.mail.hold(batch[each/2])
		s.post(batch...)
		<-asked
		proxy.Cut()
		answer(nil)
	}
	s.awaitCount(s.notifications, len(events), sent)
	s.awaitReady(0)
	s.wantOnce(events)
}
