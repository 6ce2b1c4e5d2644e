package system

import (
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
