package observe

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
)

// Alert is one rule of prometheus/rules.yml.
type Alert struct {
	Name, Expr string
	Text       string // the rule as it stands in the file
}

// One line for each expression keeps the file readable without a parser for YAML.
var alertRule = regexp.MustCompile(`(?m)^      - alert: (\w+)\n        expr: (.+)\n(?:        .+\n)*`)

// Alerts reads the rules.
func Alerts(root string) ([]Alert, error) {
	file, err := fs.ReadFile(os.DirFS(root), "prometheus/rules.yml")
	if err != nil {
		return nil, err
	}
	var alerts []Alert
	for _, m := range alertRule.FindAllStringSubmatch(string(file), -1) {
		alerts = append(alerts, Alert{Name: m[1], Expr: m[2], Text: m[0]})
	}
	return alerts, nil
}

var (
	comparison = regexp.MustCompile(` (==|!=|>=|<=|>|<) `)
	exclusion  = regexp.MustCompile(` unless on \([^)]*\) `)
)

// WithoutThresholds returns what the alert compares: these expressions have series also
// while there is nothing to alert on.
func (a Alert) WithoutThresholds() []string {
	return exclusion.Split(comparison.ReplaceAllString(a.Expr, " $1 bool "), -1)
}

// AlwaysActive returns the alert as it would be without its threshold.
func (a Alert) AlwaysActive() string {
	return strings.Replace(a.Text, a.Expr, a.WithoutThresholds()[0], 1)
}
