package observe_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/observe"
)

const (
	root        = "../.."
	rulesFile   = root + "/prometheus/rules.yml"
	testsFolder = root + "/prometheus/tests"
)

func alerts(t *testing.T) []observe.Alert {
	t.Helper()
	all, err := observe.Alerts(root)
	check.Must(t, err)
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
	check.Must(t, err)
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
	check.Must(t, os.CopyFS(filepath.Join(folder, "tests"), os.DirFS(testsFolder)))
	rules := read(t, rulesFile)
	for _, a := range alerts(t) {
		rules = strings.Replace(rules, a.Text, mutate(a), 1)
	}
	file := filepath.Join(folder, "rules.yml")
	check.Must(t, os.WriteFile(file, []byte(rules), 0o600))
	if problem := promtool(t, "check", "rules", file); problem != "" {
		t.Fatal(problem) // malformed rules would fail every test
	}
	tests, err := filepath.Glob(folder + "/tests/*.yml")
	check.Must(t, err)
	return promtool(t, append([]string{"test", "rules"}, tests...)...)
}

var chapter = regexp.MustCompile(`(?m)^## ([A-Z]\w+)$`)

// TestTheRunbookKnowsEachAlert wants a chapter for each alert, and a link to it in the alert.
func TestTheRunbookKnowsEachAlert(t *testing.T) {
	t.Parallel()
	chapters := map[string]bool{}
	for _, m := range chapter.FindAllStringSubmatch(read(t, root+"/docs/runbook.md"), -1) {
		chapters[m[1]] = true
	}
	for _, a := range alerts(t) {
		if !chapters[a.Name] || !strings.Contains(a.Text, "runbook_url: docs/runbook.md#"+strings.ToLower(a.Name)+"\n") {
			t.Errorf("%s: has a chapter: %t; or it has no link to it:\n%s", a.Name, chapters[a.Name], a.Text)
		}
		delete(chapters, a.Name)
	}
	for name := range chapters {
		t.Errorf("there is a chapter on %s, which is not an alert", name)
	}
}

// TestTheRunbookNamesWhatAnOperatorFinds: its quotes are titles of panels, and messages of the log.
func TestTheRunbookNamesWhatAnOperatorFinds(t *testing.T) {
	t.Parallel()
	var found strings.Builder
	for _, d := range dashboards(t) {
		found.Write(d.JSON)
	}
	for _, folder := range []string{"outbox", "order-service", "notification-service", "internal"} {
		check.Must(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				found.WriteString(read(t, path))
			}
			return err
		}))
	}
	quotes := regexp.MustCompile("“([^”]+\\?)”|`\"msg\":(\"[^\"]+\")`")
	for _, m := range quotes.FindAllStringSubmatch(read(t, root+"/docs/runbook.md"), -1) {
		if m[2] == "" && !strings.Contains(found.String(), `"title": "`+m[1]+`"`) || !strings.Contains(found.String(), m[2]) {
			t.Errorf("nothing shows or logs %s", m[0])
		}
	}
}

func dashboards(t *testing.T) []observe.Dashboard {
	t.Helper()
	all, err := observe.Dashboards(root)
	check.Must(t, err)
	if len(all) != 3 {
		t.Fatalf("%d dashboards, want 3", len(all))
	}
	return all
}

func TestDashboardsUseProvisionedDataSources(t *testing.T) {
	t.Parallel()
	provisioned := read(t, root+"/grafana/datasources.yml")
	for _, d := range dashboards(t) {
		var sources []observe.Datasource
		for _, a := range d.Annotations.List {
			sources = append(sources, a.Datasource)
		}
		for _, p := range d.Panels {
			if p.Type != "row" {
				sources = append(sources, p.Datasource) // its queries use it, too
			}
		}
		for _, s := range sources {
			if !strings.Contains(provisioned, "uid: "+s.UID+"\n    type: "+s.Type+"\n") {
				t.Errorf("%s uses %+v, which is not in datasources.yml", d.File, s)
			}
		}
	}
}

// notInSchema are fields of Grafana's Prometheus plugin that the schema does not have.
var notInSchema = regexp.MustCompile(`unexpected field '(titleFormat|tagKeys|step)'$`)

// TestDashboardsMatchGrafanasSchema reads the dashboards with the types that Grafana generates from
// its schema. They accept no unknown field, also in the options of the panels.
func TestDashboardsMatchGrafanasSchema(t *testing.T) {
	t.Parallel()
	plugins.RegisterDefaultPlugins()
	for _, d := range dashboards(t) {
		var schema dashboard.Dashboard
		if err := schema.UnmarshalJSONStrict(d.JSON); err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !notInSchema.MatchString(line) {
					t.Errorf("%s: %s", d.File, line)
				}
			}
		}
		if err := schema.Validate(); err != nil {
			t.Errorf("%s: %v", d.File, err)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	check.Must(t, err)
	return string(content)
}
