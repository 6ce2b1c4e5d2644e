package system

import (
	"slices"
	"testing"

	"example.com/transactional-outbox/test/servers"
)

// outage makes a dependency of notification-service unavailable, by a proxy.
type outage struct {
	dependency string
	proxy      func(*system) (proxy *servers.Proxy, setting string)
	begin, end func(*servers.Proxy)
	// noGate is true where the gate stays open: the dependency is connected but does not
	// answer, and the timeout is minutes. The consumer holds the messages as well.
	noGate bool
}

var outages = map[string]outage{
	"the database refuses connections":    {"database", (*system).databaseProxy, refuseConnections, admitConnections, false},
	"the mail server refuses connections": {"mail", (*system).mailProxy, refuseConnections, admitConnections, false},
	"the mail server does not answer":     {"mail", (*system).mailProxy, (*servers.Proxy).Stall, (*servers.Proxy).Resume, true},
}

// TestP5P6AnUnavailableDependencyUsesNoRetries makes the database or the mail server
// unavailable while more messages arrive than the consumer prefetches.
func TestP5P6AnUnavailableDependencyUsesNoRetries(t *testing.T) {
	t.Parallel()
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			copies := s.recordExchanges(append([]string{deadLetterExchange}, quickTiers...)...)
			proxy, setting := outage.proxy(s)
			service := s.startConsumer(quickRetries, setting)
			earlier, later := newOrders(5), newOrders(40)
			s.publish(earlier...)
			s.awaitCount(s.notificationsDB, len(earlier), sentCount)
			service.awaitClosedGates()

			outage.begin(proxy)
			s.publish(later...)
			if !outage.noGate {
				service.awaitClosedGates(outage.dependency)
				service.awaitLog("still away") // it keeps trying
			}
			s.awaitInMainQueue(len(later))

			outage.end(proxy)
			s.awaitCount(s.notificationsDB, len(earlier)+len(later), sentCount)
			service.awaitClosedGates()
			s.wantOneEmailEach(slices.Concat(earlier, later)...)
			s.awaitInMainQueue(0)
			if got := copies.await(0); len(got) != 0 {
				t.Errorf("%d messages were copied to a retry queue or dead-lettered: %v", len(got), messageIDs(got))
			}
			service.wantNoFailures()
		})
	}
}

// wantNoFailures wants the consumer to have counted no retry, dead letter or failure.
func (s *service) wantNoFailures() {
	s.Helper()
	for _, series := range []string{"consumer_retries_total", "consumer_dlq_published_total", "consumer_processing_failed_total"} {
		s.awaitMetric(series, 0)
	}
}
