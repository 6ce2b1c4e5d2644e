package systemtest

import (
	"testing"

	"example.com/transactional-outbox/internal/servertest"
)

// TestP12SIGTERMWithEverythingSilentEndsIn20s stalls what the service works with, in the
// middle of its work: nothing answers, and no connection closes.
func TestP12SIGTERMWithEverythingSilentEndsIn20s(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string][]string{
		"the mail server and the database":                {"mail", "database"},
		"the mail server, the database, and the broker":   {"mail", "database", "broker"},
		"the database alone, with e-mails at the dot":     {"database"},
		"the mail server alone, with e-mails at the dot":  {"mail"},
		"the database and the broker, e-mails at the dot": {"database", "broker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			mail := s.scriptMail()
			proxies, settings := map[string]*servertest.Proxy{}, []string{quick, "", "", ""}
			proxies["mail"], settings[1] = s.before("mail")
			proxies["database"], settings[2] = s.before("database")
			proxies["broker"], settings[3] = s.proxied(notificationService)
			running, _ := s.trusted(settings...)
			dots := mail.holdDots(t)
			s.emit(ordersOf(workers)...)
			dots.await(t)
			for _, name := range silent {
				proxies[name].Stall()
			}
			dots.release()
			running.wantEndIn20s()
			s.wantNoneDead()
		})
	}
}
