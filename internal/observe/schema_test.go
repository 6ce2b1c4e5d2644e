package observe_test

import (
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// prometheusAnnotation are fields that Grafana's Prometheus plugin reads and the schema
// of annotations does not know.
var prometheusAnnotation = []string{"'titleFormat'", "'tagKeys'", "'step'"}

// TestDashboardsKeepToGrafanasSchema reads them with the types that Grafana generates
// from its schema, which take no unknown field, down to the options of each panel.
func TestDashboardsKeepToGrafanasSchema(t *testing.T) {
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

func known(complaint string) bool {
	for _, field := range prometheusAnnotation {
		if strings.HasSuffix(complaint, "unexpected field "+field) {
			return true
		}
	}
	return false
}
