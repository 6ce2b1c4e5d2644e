package main

import (
	"bytes"
	"strings"
	"testing"

	"example.com/transactional-outbox/chaos/checker"
)

func TestEveryScenarioHasANameOfItsOwnAndIsInTheHelp(t *testing.T) {
	t.Parallel()
	var help bytes.Buffer
	printHelp(&help)
	known := map[string]bool{}
	for _, s := range scenarios {
		if known[s.name] || s.does == "" || s.fault == nil || !strings.Contains(help.String(), "\n"+s.name+" ") {
			t.Errorf("scenario %q", s.name)
		}
		known[s.name] = true
	}
	for _, name := range soakable {
		if s, ok := find(name); !ok || s.afterwards != nil || s.orders != nil || s.notifications != nil {
			t.Errorf("%q cannot be a part of a soak", name)
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
		y := &system{ground: &ground{}, injected: test.injected}
		r := y.result(scenario{}, test.report, 0)
		if r.verdict() != test.verdict || r.Pass != (test.verdict == "kept") || (verdict([]result{r}) == nil) != r.Pass {
			t.Errorf("%s: %q, %v", name, r.verdict(), r.Pass)
		}
	}
}
