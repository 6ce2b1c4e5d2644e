package observe

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
)

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
