package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/env/check"
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

func TestCommitsAreRecognised(t *testing.T) {
	t.Parallel()
	c := &commits{names: map[string]bool{}}
	const name = "stmtcache_5f"
	for _, step := range []struct {
		request string
		commit  bool
	}{
		{"B\x00\x00\x00\x10\x00" + name + "\x00\x00", false},        // not prepared yet
		{"P\x00\x00\x00H" + name + "\x00COMMIT\x00\x00\x00", false}, // only prepared
		{"D\x00\x00\x00\x10S" + name + "\x00", false},               // only described
		{"B\x00\x00\x00\x10\x00" + name + "\x00\x00", true},
		{"Q\x00\x00\x00\x0bcommit\x00", true},
		{"Q\x00\x00\x00\x0brollback\x00", false},
	} {
		if got := c.isCommit([]byte(step.request)); got != step.commit {
			t.Errorf("%q: %v", step.request, got)
		}
	}
}

// TestTheClockOfThisGoVersionCanBeMoved fails when a new Go version requires another edit.
func TestTheClockOfThisGoVersionCanBeMoved(t *testing.T) {
	t.Parallel()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	check.Must(t, err)
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go"))
	check.Must(t, err)
	moved, err := patchTimeNow(string(source))
	if err != nil || !strings.Contains(moved, "sec += ahead") {
		t.Error(err)
	}
	if _, err := patchTimeNow("package time\n"); err == nil {
		t.Error("it edited a time.go without the line")
	}
}
