package checker_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/chaos/checker"
)

// afterFailover is the evidence after a failover that forgot the last order. Its events were
// published, and its e-mails were sent.
func afterFailover() checker.Evidence {
	primary := healthy()
	e := withoutOrder(healthy(), 2)
	e.Tap, e.Mails = primary.Tap, primary.Mails
	e.Forgotten = checker.Difference(primary, withoutOrder(healthy(), 2))
	e.Forgotten.Replicated = 4 // both attempts of the first two orders
	return e
}

func TestWhatAFailoverForgotIsExplained(t *testing.T) {
	t.Parallel()
	r := checker.Check(afterFailover(), checker.Allowance{Lease: lease})
	if !r.Kept() || r.Lost != 0 || r.Forgotten != 2 || r.ForgottenMessages != 2 || r.ForgottenMails != 2 || r.Explain() == "" {
		t.Errorf("%+v", r)
	}
	if again := checker.Check(healthy(), checker.Allowance{Lease: lease}); again.Explain() != "" {
		t.Errorf("explains %q, and nothing is lost", again.Explain())
	}
}

func TestAConsumerThatForgotMaySendAgain(t *testing.T) {
	t.Parallel()
	e, standby := healthy(), healthy()
	standby.Emails[3].Status = "in_progress"
	repeat(&e, 3, 1)
	if r := checker.Check(e, checker.Allowance{Lease: lease}); r.Kept() {
		t.Error("a repeated e-mail is no violation")
	}
	e.Forgotten = checker.Difference(healthy(), standby)
	if r := checker.Check(e, checker.Allowance{Lease: lease}); !r.Kept() || r.MailBound != 1 {
		t.Errorf("%+v", r)
	}
	repeat(&e, 3, 1)
	if r := checker.Check(e, checker.Allowance{Lease: lease}); r.Kept() {
		t.Error("a second repeat is no violation")
	}
}

func TestAFailoverDoesNotExplainEveryLoss(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do       func(*checker.Evidence)
		promises string
	}{
		"an order that was acknowledged while the standby had everything": {
			func(e *checker.Evidence) { e.Forgotten.Replicated = 6 }, "P1",
		},
		"an order that the old primary did not have": {
			func(e *checker.Evidence) { delete(e.Forgotten.Orders, "order-2") }, "P1",
		},
		"an order without its event": {
			func(e *checker.Evidence) { delete(e.Forgotten.Events, "event-2-2") }, "P1 P2 P6",
		},
		"another order": {
			func(e *checker.Evidence) {
				e.Orders, e.Events, e.Emails = drop(e.Orders, 1), drop(drop(e.Events, 2), 2), drop(drop(e.Emails, 2), 2)
				e.Recorded = drop(drop(e.Recorded, 2), 2)
			}, "P1 P2 P6",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := afterFailover()
			test.do(&e)
			r := checker.Check(e, checker.Allowance{Lease: lease})
			if got := strings.Join(slices.Sorted(maps.Keys(r.Broken)), " "); got != test.promises {
				t.Errorf("broken promises %q, want %q: %v", got, test.promises, r.Broken)
			}
		})
	}
}
