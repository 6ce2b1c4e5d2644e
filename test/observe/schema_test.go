package observe_test

import (
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// prometheusAnnotation are fields of Grafana's Prometheus plugin that the schema does not have.
var prometheusAnnotation = []string{"'titleFormat'", "'tagKeys'", "'step'"}

// TestDashboardsMatchGrafanasSchema reads the dashboards with the types that Grafana generates from
// its schema. They accept no unknown field, also in the options of the panels.
func TestDashboardsMatchGrafanasSchema(t *testing.T) {
	t.Parallel()
	plugins.RegisterDefaultPlugins()
	for _, d := range dashboards(t) {
		var read dashboard.Dashboard
		if err := read.UnmarshalJSONStrict(d.JSON); err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !known(line) {
					t.Errorf("%s: %s", d.File, line)
				}
			}
		}
		if err := read.Validate(); err != nil {
			t.Errorf("%s: %v", d.File, err)
		}
	}
}

func known(problem string) bool {
	for _, field := range prometheusAnnotation {
		if strings.HasSuffix(problem, "unexpected field "+field) {
			return true
		}
	}
	return false
}
