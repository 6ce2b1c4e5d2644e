package observe_test

import (
	"slices"
	"testing"

	"example.com/transactional-outbox/test/observe"
)

func TestSelectors(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string][]string{
		`up`:                         {"up"},
		`sum(up == bool 0)`:          {"up"},
		`a{x="y"} and b{} or c`:      {`a{x="y"}`, "b{}", "c"},
		`max by (job, x) (a{b="c"})`: {`a{b="c"}`},
		`histogram_quantile(0.95, sum by (le) (rate(a_bucket{method="POST"}[5m])))`: {`a_bucket{method="POST"}`},
		`a unless on (job, instance) b`:                                             {"a", "b"},
	} {
		if got := (observe.Query{Expr: expr}).Selectors(); !slices.Equal(got, want) {
			t.Errorf("%s has the selectors %q, want %q", expr, got, want)
		}
	}
}

func TestWithoutThresholds(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string][]string{
		"a > 1":                                  {"a > bool 1"},
		"a == 0 and b >= 2":                      {"a == bool 0 and b >= bool 2"},
		"up == 1 unless on (job, instance) a{b}": {"up == bool 1", "a{b}"},
		`absent(up{job="a"})`:                    {`(up{job="a"})`},
	} {
		if got := (observe.Alert{Expr: expr}).WithoutThresholds(); !slices.Equal(got, want) {
			t.Errorf("%s becomes %q, want %q", expr, got, want)
		}
	}
}
