// Package observe proves that the dashboards, the alerts and the runbook fit together, and starts a
// real Prometheus for tests of their queries.
package observe

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Dashboard has the parts of a file in grafana/dashboards that the tests read.
type Dashboard struct {
	File        string `json:"-"`
	JSON        []byte `json:"-"`
	UID         string
	Title       string
	Panels      []Panel
	Annotations struct {
		List []struct {
			Name, Expr string
			Datasource Datasource
		}
	}
}

// Panel is a panel of a dashboard.
type Panel struct {
	Type, Title string
	Datasource  Datasource
	Targets     []Target
}

// Datasource is the data source of a query.
type Datasource struct{ Type, UID string }

// Target is one query of a panel.
type Target struct {
	RefID, Expr     string
	Range, Exemplar bool
}

// Dashboards reads all dashboards.
func Dashboards(root string) (dashboards []Dashboard, err error) {
	folder := os.DirFS(filepath.Join(root, "grafana", "dashboards"))
	files, err := fs.Glob(folder, "*.json")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		d := Dashboard{File: file}
		if d.JSON, err = fs.ReadFile(folder, file); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(d.JSON, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		dashboards = append(dashboards, d)
	}
	return dashboards, nil
}

// Alert is a rule of prometheus/rules.yml.
type Alert struct {
	Name, Expr string
	Text       string // the rule's lines in the file
}

// Each expression is on one line, so this needs no YAML parser.
var alertRule = regexp.MustCompile(`(?m)^      - alert: (\w+)\n        expr: (.+)\n(?:        .+\n)*`)

// Alerts reads all rules.
func Alerts(root string) ([]Alert, error) {
	file, err := fs.ReadFile(os.DirFS(root), "prometheus/rules.yml")
	if err != nil {
		return nil, err
	}
	var alerts []Alert
	for _, m := range alertRule.FindAllStringSubmatch(string(file), -1) {
		alerts = append(alerts, Alert{Name: m[1], Expr: m[2], Text: m[0]})
	}
	if n := strings.Count(string(file), "- alert:"); len(alerts) != n || n == 0 {
		return nil, fmt.Errorf("%d of %d alerts were read", len(alerts), n)
	}
	return alerts, nil
}

var (
	comparison = regexp.MustCompile(` (==|!=|>=|<=|>|<) `)
	exclusion  = regexp.MustCompile(` unless on \([^)]*\) `)
)

// WithoutThresholds returns the expressions that the alert compares. They have series even when the
// alert does not fire.
func (a Alert) WithoutThresholds() []string {
	expr := strings.ReplaceAll(a.Expr, "absent(", "(")
	return exclusion.Split(comparison.ReplaceAllString(expr, " $1 bool "), -1)
}

// AlwaysActive returns the rule's text without its threshold.
func (a Alert) AlwaysActive() string {
	return strings.Replace(a.Text, a.Expr, a.WithoutThresholds()[0], 1)
}

// Query is an expression and its place.
type Query struct {
	Where, Expr string
	Range       bool // drawn over time
	Exemplar    bool
}

// Queries returns the queries of all dashboards and alerts. It replaces Grafana's variable
// $__rate_interval by the given interval.
func Queries(root, interval string) (queries []Query, err error) {
	dashboards, err := Dashboards(root)
	if err != nil {
		return nil, err
	}
	alerts, err := Alerts(root)
	if err != nil {
		return nil, err
	}
	for _, d := range dashboards {
		for _, a := range d.Annotations.List {
			queries = append(queries, Query{Where: d.Title + ": " + a.Name, Expr: a.Expr, Range: true})
		}
		for _, p := range d.Panels {
			for _, t := range p.Targets {
				where := fmt.Sprintf("%s: %s (%s)", d.Title, p.Title, t.RefID)
				queries = append(queries, Query{Where: where, Expr: t.Expr, Range: t.Range, Exemplar: t.Exemplar})
			}
		}
	}
	for _, a := range alerts {
		for _, expr := range a.WithoutThresholds() {
			queries = append(queries, Query{Where: a.Name, Expr: expr})
		}
	}
	for i := range queries {
		queries[i].Expr = strings.ReplaceAll(queries[i].Expr, "$__rate_interval", interval)
	}
	return queries, nil
}

// selector matches a name with an underscore, which every metric but `up` has, and what stands in
// braces after it, but no function.
var selector = regexp.MustCompile(`\b((?:up|[a-z]+(?:[_:][a-z0-9]+)+)\b(?:\{[^}]*\})?)(?:[^({\w]|$)`)

// Selectors returns the query's selectors of series, for example outbox_events{status="failed"}.
func (q Query) Selectors() (selectors []string) {
	for _, m := range selector.FindAllStringSubmatch(q.Expr, -1) {
		selectors = append(selectors, m[1])
	}
	return selectors
}
