package observe_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/observe"
)

const (
	rulesFile   = root + "/prometheus/rules.yml"
	testsFolder = root + "/prometheus/tests"
)

func alerts(t *testing.T) []observe.Alert {
	t.Helper()
	all, err := observe.Alerts(root)
	must(t, err)
	rules, err := os.ReadFile(rulesFile)
	must(t, err)
	if n := strings.Count(string(rules), "- alert:"); len(all) != n || n == 0 {
		t.Fatalf("%d of %d alerts were read", len(all), n)
	}
	return all
}

// promtool runs promtool. It returns its output if it fails.
func promtool(t *testing.T, arguments ...string) (problem string) {
	t.Helper()
	output, err := exec.Command(observe.Program(t, root, "promtool"), arguments...).CombinedOutput()
	if err != nil {
		return err.Error() + "\n" + string(output)
	}
	return ""
}

func TestPromtoolAcceptsConfigurationAndRules(t *testing.T) {
	t.Parallel()
	tests, err := filepath.Glob(testsFolder + "/*.yml")
	must(t, err)
	for _, arguments := range [][]string{
		{"check", "config", root + "/prometheus/prometheus.yml"},
		{"check", "rules", "--lint=all", "--lint-fatal", rulesFile},
		append([]string{"test", "rules"}, tests...),
	} {
		if problem := promtool(t, arguments...); problem != "" {
			t.Errorf("promtool %v: %s", arguments, problem)
		}
	}
}

func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, a := range alerts(t) {
		for _, want := range []string{
			`severity: (critical|warning)\}`, "summary: .", `description: .+\.`,
			"runbook_url: " + `docs/runbook\.md#` + strings.ToLower(a.Name) + "\n",
		} {
			if !regexp.MustCompile(want).MatchString(a.Text) {
				t.Errorf("%s has no %s", a.Name, want)
			}
		}
	}
}

var duration = regexp.MustCompile(`(?m)^        for: .+\n`)

// TestEachPartOfAnAlertIsTested removes one part from every rule. The tests of each rule must fail.
func TestEachPartOfAnAlertIsTested(t *testing.T) {
	t.Parallel()
	for missing, without := range map[string]func(observe.Alert) string{
		"firing":        func(a observe.Alert) string { return strings.Replace(a.Text, a.Expr, "vector(0) > 1", 1) },
		"its threshold": observe.Alert.AlwaysActive,
		"its for":       func(a observe.Alert) string { return duration.ReplaceAllString(a.Text, "") },
	} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			failures := testMutant(t, without)
			for _, a := range alerts(t) {
				seen := strings.Contains(failures, `alertname=\"`+a.Name+`\"`)
				if has := without(a) != a.Text; seen != has {
					t.Errorf("%s: it has this part: %v, a test fails without it: %v", a.Name, has, seen)
				}
			}
		})
	}
}

// testMutant runs all rule tests on changed rules, and returns promtool's output.
func testMutant(t *testing.T, mutate func(observe.Alert) string) string {
	t.Helper()
	folder := t.TempDir()
	must(t, os.CopyFS(filepath.Join(folder, "tests"), os.DirFS(testsFolder)))
	text, err := os.ReadFile(rulesFile)
	must(t, err)
	rules := string(text)
	for _, a := range alerts(t) {
		rules = strings.Replace(rules, a.Text, mutate(a), 1)
	}
	file := filepath.Join(folder, "rules.yml")
	must(t, os.WriteFile(file, []byte(rules), 0o600))
	if problem := promtool(t, "check", "rules", file); problem != "" {
		t.Fatal(problem) // malformed rules would fail every test
	}
	tests, err := filepath.Glob(folder + "/tests/*.yml")
	must(t, err)
	return promtool(t, append([]string{"test", "rules"}, tests...)...)
}
