package browser

import (
	"context"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/mailserver"
)

// cause is something that is wrong, and how an operator finds and mends it.
type cause struct {
	happens  func(*site)
	of       func(*site) *service // whose page the operator reads
	overview []string             // what it says
	click    string               // the link that leads to the cause
	search   string               // a text that is then looked for
	says     []string             // what the page of the cause says: the reason, who, and how many
	mended   func(*testing.T, *site)
	clicks   []string // what the operator clicks then, on the page of the cause; none: nothing
	decided  []string // what the list of decisions says then
	emails   int      // that arrive in the end
}

func ofOrders(s *site) *service        { return s.orders }
func ofNotifications(s *site) *service { return s.notifications }

var causes = map[string]cause{
	"the broker is away": {
		happens: func(s *site) {
			s.startNotifications()
			must(s.T, shared.Broker.Stop(s.Context()))
			s.Cleanup(func() { must(s.T, shared.Broker.Start(context.Background())) }) // the other tests need it
			s.order("ann@example.com", "ben@example.com")
		},
		of:       ofOrders,
		overview: []string{"The relay waits for a session with", "connection refused", "Pending\n2"},
		click:    "the events that wait",
		says:     []string{"the relay waits for a session with", "connection refused", "order.created"},
		mended:   func(t *testing.T, _ *site) { must(t, shared.Broker.Start(t.Context())) },
		decided:  []string{"No decisions yet."},
		emails:   2,
	},
	"the mail server defers one domain": {
		happens: func(s *site) {
			s.mail.SetFault(mailserver.Fault{
				Code: 451, Enhanced: [3]int{4, 7, 1}, Only: func(to string) bool { return strings.HasSuffix(to, "@slow.example") },
			})
			s.startNotifications()
			s.order("ann@slow.example", "ben@slow.example", "cleo@slow.example", "dora@example.com")
			s.holdPause(s.notifications)
		},
		of:       ofNotifications,
		overview: []string{"The domain slow.example is paused because the mail server does not take its e-mails. 3 e-mails wait.", "4.7.1"},
		click:    "its e-mails",
		says:     []string{"slow.example has been paused since", "4.7.1", "3 wait.", "not taken"},
		mended:   func(_ *testing.T, s *site) { s.mail.SetFault(mailserver.Fault{}) },
		clicks:   []string{"Resume", "Resume"},
		decided:  []string{"anonymous\tpage\tresume"},
		emails:   4,
	},
	"nothing is bound to a topic": {
		happens: func(s *site) {
			s.order("ann@example.com", "ben@example.com")
			s.holdPause(s.orders)
		},
		of:       ofOrders,
		overview: []string{"The topic order.created is paused because the broker does not take its events. 2 events wait.", "no queue"},
		click:    "its events",
		says:     []string{"order.created has been paused since", "no queue", "2 wait.", "unroutable"},
		mended:   func(_ *testing.T, s *site) { s.startNotifications() }, // which binds its queue, as the runbook says
		clicks:   []string{"Resume", "Resume"},
		decided:  []string{"anonymous\tpage\tresume"},
		emails:   2,
	},
	"one customer asks for her e-mail": {
		happens: func(s *site) {
			s.mail.SetFault(mailserver.Fault{
				Code: 550, Enhanced: [3]int{5, 1, 1}, Only: func(to string) bool { return to == "ann@post.example" },
			})
			s.startNotifications()
			s.order("ann@post.example", "ben@post.example")
		},
		of:       ofNotifications,
		overview: []string{"1 e-mail of the domain post.example failed: invalid.", "5.1.1"},
		click:    "Find",
		search:   "Ann@post.example",
		says:     []string{"Found 1 e-mail", "failed", "invalid", "5.1.1"},
		mended:   func(_ *testing.T, s *site) { s.mail.SetFault(mailserver.Fault{}) },
		clicks:   []string{"Replay", "Replay"},
		decided:  []string{"anonymous\tpage\treplay\tids\t1 of 1", "anonymous\tpage\tfind"},
		emails:   2,
	},
}

// TestFromTheOverviewOneClickLeadsToTheCauseAndTwoToTheMend for each cause. Then all is well, every
// e-mail has arrived once, and it is recorded who has decided what. It runs alone, because it stops
// the broker of all tests.
func TestFromTheOverviewOneClickLeadsToTheCauseAndTwoToTheMend(t *testing.T) { //nolint:paralleltest // see above
	for name, c := range causes { //nolint:paralleltest // see above
		t.Run(name, func(t *testing.T) {
			s, operator := newSite(t), newPerson(t)
			c.happens(s)
			overview := c.of(s).page
			operator.visit(overview)
			operator.await(c.overview...)
			operator.visit(overview + paused)
			operator.click(c.click)
			if c.search != "" {
				operator.write("text", c.search+"\r")
				operator.await("Found")
			}
			operator.want(c.says...)
			if c.clicks == nil { // the overview gets well by itself
				operator.visit(overview)
			}
			c.mended(t, s)
			for _, text := range c.clicks {
				operator.click(text)
			}
			if c.clicks != nil {
				operator.visit(overview)
			}
			operator.await("All is well", "Nothing is wrong")
			s.wantEmails(c.emails)
			operator.visit(overview + "decisions" + paused)
			operator.want(c.decided...)
		})
	}
}

// wantEmails waits for n e-mails, each with another id.
func (s *site) wantEmails(n int) {
	s.Helper()
	check.Await(s, "all e-mails", func() bool { return len(s.mail.Mails()) >= n })
	ids := map[string]int{}
	for _, m := range s.mail.Mails() {
		ids[m.MessageID]++
	}
	if len(ids) != n || len(s.mail.Mails()) != n {
		s.Errorf("the e-mails are %v, want %d", ids, n)
	}
}
