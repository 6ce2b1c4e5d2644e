package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/chaos/checker"
)

func TestEveryScenarioHasAUniqueNameAndIsInTheHelp(t *testing.T) {
	t.Parallel()
	var help bytes.Buffer
	printHelp(&help)
	known := map[string]bool{}
	for _, s := range slices.Concat(scenarios, clusterScenarios) {
		if known[s.name] || s.description == "" || s.fault == nil || !strings.Contains(help.String(), "\n"+s.name+" ") {
			t.Errorf("scenario %q", s.name)
		}
		known[s.name] = true
	}
	for _, name := range soakable {
		if s, ok := find(name); !ok || s.afterwards != nil || s.orderSettings != nil || s.notificationSettings != nil {
			t.Errorf("%q cannot be part of a soak", name)
		}
	}
}

func TestAnUnknownScenarioIsAnError(t *testing.T) {
	t.Setenv("ONLY", "broker-sigkill,typo")
	if _, err := readOptions(); err == nil || !strings.Contains(err.Error(), "typo") {
		t.Errorf("%v", err)
	}
}

func TestAScenarioWithoutAFaultFails(t *testing.T) {
	t.Parallel()
	kept := checker.Report{Broken: map[string][]string{}}
	broken := checker.Report{Broken: map[string][]string{"P3": {"gone"}}}
	for name, test := range map[string]struct {
		report   checker.Report
		injected int
		verdict  string
	}{
		"good":         {kept, 1, "kept"},
		"no fault":     {kept, 0, "NO FAULT INJECTED"},
		"broken":       {broken, 1, "BROKEN P3"},
		"both at once": {broken, 0, "BROKEN P3"},
	} {
		sys := &system{environment: &environment{}, injected: test.injected}
		r := sys.result(scenario{}, test.report, 0)
		if r.verdict() != test.verdict || r.Pass != (test.verdict == "kept") || (verdict([]result{r}) == nil) != r.Pass {
			t.Errorf("%s: %q, %v", name, r.verdict(), r.Pass)
		}
	}
}

func TestADeathPermitsRepeatsOfTheEmailsInFlight(t *testing.T) {
	t.Parallel()
	sys := &system{}
	for _, r := range []*replica{
		{settings: []string{"MAIL_CONNECTIONS=4", "MAIL_CONNECTIONS=3"}}, // the last value counts
		{settings: []string{"RETRY_DELAYS=1s"}},                          // the service's default
	} {
		sys.allowMailRepeats(r)
	}
	if sys.allowed.Mails != 2*3+2*8 || sys.allowed.MailsEach != 2 {
		t.Errorf("%+v", sys.allowed)
	}
}

func TestTheTableNamesTheConditionsOfTheRecovery(t *testing.T) {
	t.Parallel()
	sys := &system{environment: &environment{}, notificationServices: []*replica{{settings: longDelays}}, allowed: checker.Allowance{Lease: shortLease}}
	var table bytes.Buffer
	if err := printTable(&table, []result{sys.result(scenario{}, checker.Report{}, 0)}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"leases 3s", "retries 7s 8s 9s"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("%q is not in\n%s", want, table.String())
		}
	}
}

func TestAllRetryQueuesAreKnown(t *testing.T) {
	t.Parallel()
	all := strings.Join(allRetryQueues(), " ")
	for _, tier := range []string{"notification-service.retry.300ms", "notification-service.retry.3s", "notification-service.retry.9s"} {
		if !strings.Contains(all, tier) {
			t.Errorf("%s is not in %s", tier, all)
		}
	}
}
