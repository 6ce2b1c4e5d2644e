package system

import (
	"testing"

	"example.com/transactional-outbox/test/servers"
)

// TestP12SIGTERMWithStalledDependenciesEndsIn20s stalls dependencies while the service works:
// they do not answer, and no connection closes. In each case, e-mails wait for a reply.
func TestP12SIGTERMWithStalledDependenciesEndsIn20s(t *testing.T) {
	t.Parallel()
	for name, stalled := range map[string][]string{
		"the mail server and the database":              {"mail", "database"},
		"the mail server, the database, and the broker": {"mail", "database", "broker"},
		"the database":                {"database"},
		"the mail server":             {"mail"},
		"the database and the broker": {"database", "broker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			proxies, settings := map[string]*servers.Proxy{}, []string{quickRetries, "", "", ""}
			proxies["mail"], settings[1] = s.mailProxy()
			proxies["database"], settings[2] = s.databaseProxy()
			proxies["broker"], settings[3] = s.brokerProxy(notificationService)
			running, _ := s.startWarmConsumer(settings...)
			replies := s.mail.holdReplies(t)
			s.publish(newOrders(workers)...)
			replies.await(t)
			for _, name := range stalled {
				proxies[name].Stall()
			}
			replies.release()
			running.wantShutdownIn20s()
			s.wantNoDeadLetters()
		})
	}
}
