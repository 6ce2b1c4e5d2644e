package system

import (
	"fmt"
	"testing"
	"time"

	"example.com/transactional-outbox/test/servers"
)

// TestAClosedSessionIsReplaced closes the sessions of a service in every way in which a broker
// or a network does.
func TestAClosedSessionIsReplaced(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*system, *servers.Proxy) error{
		"its connections are cut":   func(_ *system, p *servers.Proxy) error { p.Cut(); return nil },
		"its connections are reset": func(_ *system, p *servers.Proxy) error { p.Reset(); return nil },
		"an operator closes them": func(s *system, _ *servers.Proxy) error {
			_, err := s.broker.Ctl(s.Context(), "close_all_connections", "--vhost", s.vhost(), "test")
			return err
		},
		// The broker cancels the consumer. The connection and the channel stay open.
		"its queue is deleted": func(s *system, _ *servers.Proxy) error {
			s.deleteQueue(mainQueue)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			proxy, throughProxy := s.brokerProxy(notificationService)
			s.startConsumer(throughProxy)
			events := newEvents(3)
			for i, e := range events {
				began := time.Now()
				s.publishUntilRouted(e)
				s.awaitCount(s.notificationsDB, i+1, sentCount)
				t.Logf("notification %d after %s", i, time.Since(began).Round(time.Millisecond))
				must(t, end(s, proxy))
			}
			s.wantOnce(events)
		})
	}
}

// TestAConsumerContinuesAfterTheBrokersTimeout holds a handler until the broker closes its
// channel (RabbitMQ 3) or cancels its consumer (RabbitMQ 4). By default, the timeout is 30
// minutes and the broker checks it once a minute. The test makes both shorter.
func TestAConsumerContinuesAfterTheBrokersTimeout(t *testing.T) {
	t.Parallel()
	private := servers.RabbitMQ(t)
	for name, milliseconds := range map[string]int{"consumer_timeout": 1500, "channel_tick_interval": 200} {
		_, err := private.Ctl(t.Context(), "eval", fmt.Sprintf("application:set_env(rabbit, %s, %d).", name, milliseconds))
		must(t, err)
	}
	s := newSystemOn(t, sharedDatabase, private)
	slow := s.startConsumer("CONSUMER_WORKERS=2")
	events := newEvents(3)
	s.publishUntilRouted(events[0]) // after that, it takes more than one message at a time
	s.awaitCount(s.notificationsDB, 1, sentCount)

	asked, answer := s.mail.holdRecipient(events[1])
	s.publishUntilRouted(events[1])
	<-asked
	s.awaitReadyMessages(1) // the broker has requeued the message
	before, began := slow.logLength(), time.Now()
	answer(nil)
	slow.awaitLogAfter(before, "taking messages")
	t.Logf("a new session %s after the handler returned", time.Since(began).Round(time.Millisecond))
	s.publishUntilRouted(events[2])
	s.awaitCount(s.notificationsDB, 3, sentCount)
	s.awaitOutcomes(3, []*service{slow}, "success", "duplicate")
	s.wantOnce(events)
}

// TestAStaleAckRemovesNoOtherMessage cuts the connection while a handler is slow and other
// messages are prefetched. When the handler returns, its delivery tag is from a session that
// has ended. In the new session, the same tag belongs to another message, which an ack would
// remove. The test then kills the process, so that it cannot handle that message itself.
func TestAStaleAckRemovesNoOtherMessage(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	proxy, throughProxy := s.brokerProxy(notificationService)
	slow := s.startConsumer(throughProxy, "CONSUMER_WORKERS=1", "CONSUMER_PREFETCH=8")
	events := newEvents(10)
	// These make the delivery tags higher than those of the next session.
	s.publishUntilRouted(events[:4]...)
	s.awaitCount(s.notificationsDB, 4, sentCount)

	asked, answer := s.mail.holdRecipient(events[4])
	s.publishUntilRouted(events[4])
	<-asked
	s.publishUntilRouted(events[5:]...)
	s.awaitReadyMessages(0) // the others are prefetched
	release := s.lockInbox()
	proxy.Cut()
	s.awaitHiddenReconnect(6 * time.Second)
	// The other messages are handled in the next session.
	s.awaitCount(s.notificationsDB, 1, waitingForInboxCount)

	answer(nil)
	s.awaitCount(s.notificationsDB, 5, sentCount)
	slow.kill()
	release()

	next := s.runNotifications()
	s.awaitCount(s.notificationsDB, len(events), sentCount)
	s.awaitOutcomes(len(events)-4, []*service{next}, "success", "duplicate")
	s.wantOnce(events)
}

// awaitHiddenReconnect waits until the messages were requeued and delivered again, or until
// the limit. The client library's own recovery, which the handler would not notice, begins
// after 5 s.
func (s *system) awaitHiddenReconnect(limit time.Duration) {
	s.Helper()
	requeued := false
	poll(20*time.Millisecond, limit, func() bool {
		ready := s.readyMessages(mainQueue)
		requeued = requeued || ready > 0
		return requeued && ready == 0
	})
}

// TestCutConnectionsLeaveOneEffectForEachEvent cuts the connections of many workers while one
// of them waits for the mail server.
func TestCutConnectionsLeaveOneEffectForEachEvent(t *testing.T) {
	t.Parallel()
	const cuts, each = 3, 40
	s := newSystem(t)
	proxy, throughProxy := s.brokerProxy(notificationService)
	s.startConsumer(throughProxy)
	events := newEvents(cuts * each)
	for some := range cuts {
		batch := events[some*each:][:each]
		asked, answer := s.mail.holdRecipient(batch[each/2])
		s.publishUntilRouted(batch...)
		<-asked
		proxy.Cut()
		answer(nil)
	}
	s.awaitCount(s.notificationsDB, len(events), sentCount)
	s.awaitReadyMessages(0)
	s.wantOnce(events)
}
