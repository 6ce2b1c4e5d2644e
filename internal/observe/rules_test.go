package observe_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/observe"
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
		t.Fatalf("%d alerts were read, of %d", len(all), n)
	}
	return all
}

// promtool runs it, and returns what it says if it is not content.
func promtool(t *testing.T, arguments ...string) (complaint string) {
	t.Helper()
	output, err := exec.Command(observe.Program(t, root, "promtool"), arguments...).CombinedOutput()
	if err != nil {
		return err.Error() + "\n" + string(output)
	}
	return ""
}

func TestPromtoolIsContent(t *testing.T) {
	t.Parallel()
	tests, err := filepath.Glob(testsFolder + "/*.yml")
	must(t, err)
	for _, arguments := range [][]string{
		{"check", "config", root + "/prometheus/prometheus.yml"},
		{"check", "rules", "--lint=all", "--lint-fatal", rulesFile},
		append([]string{"test", "rules"}, tests...),
	} {
		if complaint := promtool(t, arguments...); complaint != "" {
			t.Errorf("promtool %v: %s", arguments, complaint)
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

// TestEachPartOfAnAlertIsTested takes one part of every rule away at a time, and wants the
// tests of each rule to see it.
func TestEachPartOfAnAlertIsTested(t *testing.T) {
	t.Parallel()
	for missing, without := range map[string]func(observe.Alert) string{
		"that it fires": func(a observe.Alert) string { return strings.Replace(a.Text, a.Expr, "vector(0) > 1", 1) },
		"its threshold": observe.Alert.AlwaysActive,
		"its for":       func(a observe.Alert) string { return duration.ReplaceAllString(a.Text, "") },
	} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			failures := testMutant(t, without)
			for _, a := range alerts(t) {
				seen := strings.Contains(failures, `alertname=\"`+a.Name+`\"`)
				if has := without(a) != a.Text; seen != has {
					t.Errorf("%s: it has it: %v, a test misses it: %v", a.Name, has, seen)
				}
			}
		})
	}
}

// testMutant runs all tests on other rules, and returns what promtool says.
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
	if complaint := promtool(t, "check", "rules", file); complaint != "" {
		t.Fatal(complaint) // it would fail every test, and prove nothing
	}
	tests, err := filepath.Glob(folder + "/tests/*.yml")
	must(t, err)
	return promtool(t, append([]string{"test", "rules"}, tests...)...)
}
