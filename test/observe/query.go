package observe

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Query is an expression and its place.
type Query struct {
	Where, Expr string
	Range       bool // drawn over time
	Exemplar    bool
}

// Queries returns the queries of all dashboards and alerts. It replaces Grafana's variable
// $__rate_interval by the given interval.
func Queries(root, interval string) ([]Query, error) {
	dashboards, err := Dashboards(root)
	if err != nil {
		return nil, err
	}
	alerts, err := Alerts(root)
	if err != nil {
		return nil, err
	}
	queries := panelQueries(dashboards)
	for _, a := range alerts {
		for _, expr := range a.WithoutThresholds() {
			queries = append(queries, Query{Where: a.Name, Expr: expr})
		}
	}
	for i := range queries {
		q := &queries[i]
		q.Expr = strings.ReplaceAll(q.Expr, "$__rate_interval", interval)
		if strings.Contains(q.Expr, "$") {
			return nil, fmt.Errorf("%s: unknown variable in %s", q.Where, q.Expr)
		}
	}
	return queries, nil
}

func panelQueries(dashboards []Dashboard) (queries []Query) {
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
	return queries
}

var (
	grouping  = regexp.MustCompile(`\b(by|on|without|ignoring)\s*\([^)]*\)`)
	lookback  = regexp.MustCompile(`\[[\d$][^\]]*\]`) // but not the [.] of a pattern
	selector  = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^}]*\})?`)
	operators = []string{"and", "or", "unless", "bool"}
)

// Selectors returns the query's selectors of series, for example outbox_events{status="failed"}.
func (q Query) Selectors() (selectors []string) {
	expr := lookback.ReplaceAllString(grouping.ReplaceAllString(q.Expr, ""), "")
	for _, place := range selector.FindAllStringIndex(expr, -1) {
		word := expr[place[0]:place[1]]
		isFunction := strings.HasPrefix(strings.TrimLeft(expr[place[1]:], " "), "(")
		if !isFunction && !slices.Contains(operators, word) {
			selectors = append(selectors, word)
		}
	}
	return selectors
}
