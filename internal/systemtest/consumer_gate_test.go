package systemtest

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"example.com/transactional-outbox/internal/servertest"
)

// outage is a way in which a dependency goes away, behind a proxy.
type outage struct {
	dependency string
	begin, end func(*servertest.Proxy)
	// unnoticed is what only a timeout of minutes would tell: it stays connected, and does
	// not answer. The gate stays open, and the messages are held all the same.
	unnoticed bool
}

var outages = map[string]outage{
	"the database refuses":      {"database", refuse, admit, false},
	"the mail server refuses":   {"mail", refuse, admit, false},
	"the mail server is silent": {"mail", (*servertest.Proxy).Stall, (*servertest.Proxy).Resume, true},
}

func refuse(p *servertest.Proxy) {
	p.Refuse(true)
	p.Cut()
}

func admit(p *servertest.Proxy) { p.Refuse(false) }

// TestP5P6WhatAllMessagesNeedIsAwayAndNothingIsSpent takes the database or the mail
// server away while more messages come than are prefetched.
func TestP5P6WhatAllMessagesNeedIsAwayAndNothingIsSpent(t *testing.T) {
	t.Parallel()
	for name, away := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			copies := s.witness(append([]string{deadLetterX}, quickTiers...)...)
			proxy, setting := s.before(away.dependency)
			service := s.consuming(quick, setting)
			earlier, later := ordersOf(5), ordersOf(40)
			s.emit(earlier...)
			s.awaitCount(s.notifications, len(earlier), sent)
			service.awaitGates(map[string]float64{"database": 0, "mail": 0})

			away.begin(proxy)
			s.emit(later...)
			if !away.unnoticed {
				service.awaitGates(map[string]float64{"database": 0, "mail": 0, away.dependency: 1})
				service.await("still away") // it tries, and goes on trying
			}
			s.awaitHeld(float64(len(later)))

			away.end(proxy)
			s.awaitCount(s.notifications, len(earlier)+len(later), sent)
			service.awaitGates(map[string]float64{"database": 0, "mail": 0})
			s.wantOneLetterEach(slices.Concat(earlier, later)...)
			s.awaitHeld(0)
			if got := copies.await(0); len(got) != 0 {
				t.Errorf("%d messages were put aside or buried: %v", len(got), ids(got))
			}
			for _, series := range []string{"consumer_retries_total", "consumer_dlq_published_total", "consumer_processing_failed_total"} {
				service.awaitMetric(series, 0)
			}
		})
	}
}

// before puts a proxy between the service and a dependency, and returns the setting that
// leads through it.
func (s *system) before(dependency string) (proxy *servertest.Proxy, setting string) {
	s.Helper()
	address, name := s.mail.url, "SMTP_URL="
	if dependency == "database" {
		address, name = s.notifyRoles.Application, "DATABASE_URL="
	}
	u, err := url.Parse(address)
	must(s.T, err)
	proxy = servertest.NewProxy(s, u.Host)
	u.Host = proxy.Addr()
	return proxy, name + u.String()
}

// awaitGates waits until the gates are as wanted: 1 is closed.
func (s *service) awaitGates(want map[string]float64) {
	s.Helper()
	ask := time.NewTicker(50 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); ; <-ask.C {
		as := true
		for dependency, closed := range want {
			as = as && s.metric(`consumer_gate_closed{dependency="`+dependency+`"}`) == closed
		}
		if as {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("the gates are not %v", want)
		}
	}
}
