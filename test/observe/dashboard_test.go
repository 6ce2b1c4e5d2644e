package observe_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"example.com/transactional-outbox/test/observe"
)

const root = "../.."

func dashboards(t *testing.T) []observe.Dashboard {
	t.Helper()
	all, err := observe.Dashboards(root)
	must(t, err)
	if len(all) != 3 {
		t.Fatalf("%d dashboards, want 3", len(all))
	}
	return all
}

func TestDashboardsHaveFixedNamesAndFullGrids(t *testing.T) {
	t.Parallel()
	for _, d := range dashboards(t) {
		if want := strings.TrimSuffix(d.File, ".json"); d.UID != want {
			t.Errorf("%s has the uid %q, want %q: links depend on it", d.File, d.UID, want)
		}
		if d.Title == "" || d.Description == "" || !slices.Contains(d.Tags, "transactional-outbox") {
			t.Errorf("%s: title, description or tag is missing", d.File)
		}
		requireFullGrid(t, d)
	}
}

// requireFullGrid requires that the panels fill 24 columns without overlaps and gaps.
func requireFullGrid(t *testing.T, d observe.Dashboard) {
	t.Helper()
	const columns = 24
	ids, taken, bottom := map[int]string{}, map[[2]int]string{}, 0
	for _, p := range d.Panels {
		if other, exists := ids[p.ID]; exists || p.ID < 1 {
			t.Errorf("%s: %q and %q have the id %d", d.File, other, p.Title, p.ID)
		}
		ids[p.ID] = p.Title
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.Y < 0 || g.X+g.W > columns {
			t.Errorf("%s: %q is outside the grid: %+v", d.File, p.Title, g)
		}
		for i := range g.W * g.H {
			cell := [2]int{g.X + i%g.W, g.Y + i/g.W}
			if other, exists := taken[cell]; exists {
				t.Fatalf("%s: %q overlaps %q", d.File, p.Title, other)
			}
			taken[cell] = p.Title
		}
		bottom = max(bottom, g.Y+g.H)
	}
	if len(taken) != bottom*columns {
		t.Errorf("%s: the panels leave %d gaps", d.File, bottom*columns-len(taken))
	}
}

// units are Grafana's names of the units that the dashboards use.
var units = []string{"short", "none", "s", "eps", "reqps", "percentunit", "bytes"}

func TestPanelTitlesAreQuestionsWithDescriptions(t *testing.T) {
	t.Parallel()
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			if !strings.HasSuffix(p.Title, "?") {
				t.Errorf("%s: the title %q is not a question", d.File, p.Title)
			}
			if p.Type == "row" {
				continue
			}
			if p.Description == "" || !strings.HasSuffix(p.Description, ".") {
				t.Errorf("%s: %q has the description %q", d.File, p.Title, p.Description)
			}
			requireDefaults(t, p)
		}
	}
}

func requireDefaults(t *testing.T, p observe.Panel) {
	t.Helper()
	d := p.FieldConfig.Defaults
	if !slices.Contains(units, d.Unit) {
		t.Errorf("%q has the unit %q", p.Title, d.Unit)
	}
	if d.NoValue == "" {
		t.Errorf("%q does not explain a missing value", p.Title)
	}
	steps := d.Thresholds.Steps
	if d.Thresholds.Mode != "absolute" || len(steps) == 0 || steps[0].Value != nil {
		t.Errorf("%q has no absolute thresholds with a base step", p.Title)
	}
	if p.Type == "stat" && len(steps) < 2 {
		t.Errorf("%q has the same colour for every value", p.Title)
	}
	if last := len(d.Mappings) - 1; p.Type == "stat" && (last < 0 || d.Mappings[last].Options.Match != "null" || d.Mappings[last].Options.Result.Color != "orange") {
		t.Errorf("%q has no colour of its own for a missing value: it would have that of the base step", p.Title)
	}
	if drawn := d.Custom.ThresholdsStyle.Mode == "dashed"; p.Type == "timeseries" && drawn != (len(steps) > 1) {
		t.Errorf("%q has %d thresholds, drawn: %v", p.Title, len(steps), drawn)
	}
	for i := 1; i < len(steps); i++ {
		if steps[i].Value == nil || i > 1 && *steps[i].Value <= *steps[i-1].Value {
			t.Errorf("%q has thresholds that do not increase", p.Title)
		}
	}
}

func TestDashboardsUseProvisionedDataSources(t *testing.T) {
	t.Parallel()
	provisioned, err := os.ReadFile(root + "/grafana/datasources.yml")
	must(t, err)
	for _, d := range dashboards(t) {
		for _, source := range sourcesOf(d) {
			if !strings.Contains(string(provisioned), "uid: "+source.UID+"\n    type: "+source.Type+"\n") {
				t.Errorf("%s uses %+v, which is not in datasources.yml", d.File, source)
			}
		}
	}
}

func sourcesOf(d observe.Dashboard) (sources []observe.Datasource) {
	for _, a := range d.Annotations.List {
		sources = append(sources, a.Datasource)
	}
	for _, p := range d.Panels {
		if p.Type != "row" { // its queries use it, too
			sources = append(sources, p.Datasource)
		}
	}
	return sources
}

func TestQueriesMatchTheirPanel(t *testing.T) {
	t.Parallel()
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			if (len(p.Targets) == 0) != (p.Type == "row") {
				t.Errorf("%q has %d queries", p.Title, len(p.Targets))
			}
			requireTargets(t, p)
		}
	}
}

func requireTargets(t *testing.T, p observe.Panel) {
	t.Helper()
	var ids, legends []string
	histograms, exemplars := 0, 0
	for _, target := range p.Targets {
		ids, legends = append(ids, target.RefID), append(legends, target.LegendFormat)
		if strings.Contains(target.Expr, "_bucket") {
			histograms++
		}
		if target.Exemplar {
			exemplars++
		}
		if target.Range == target.Instant || target.Range != (p.Type == "timeseries") {
			t.Errorf("%q %s: range %v, instant %v", p.Title, target.RefID, target.Range, target.Instant)
		}
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != len(p.Targets) {
		t.Errorf("%q has two targets with the same letter", p.Title)
	}
	// One target is enough: the exemplars of all quantiles are the same.
	if (histograms > 0) != (exemplars == 1) {
		t.Errorf("%q has %d histograms and draws exemplars %d times", p.Title, histograms, exemplars)
	}
	for _, o := range p.FieldConfig.Overrides {
		if o.Matcher.ID == "byName" && p.Type != "table" && !slices.Contains(legends, o.Matcher.Options) {
			t.Errorf("%q sets the colour of %q, which it does not have", p.Title, o.Matcher.Options)
		}
	}
}

var (
	colour  = regexp.MustCompile(`"(?:color|fixedColor)": "([^"]+)"`)
	meaning = regexp.MustCompile(`^(super-light-|light-|semi-dark-|dark-)?(green|orange|red)$`)
)

// TestColoursHaveAMeaning allows green for success, amber for waiting, red for loss and refusal.
func TestColoursHaveAMeaning(t *testing.T) {
	t.Parallel()
	for _, d := range dashboards(t) {
		for _, m := range colour.FindAllSubmatch(d.JSON, -1) {
			if !meaning.Match(m[1]) {
				t.Errorf("%s uses the colour %s", d.File, m[1])
			}
		}
	}
}

// TestAnExemplarOpensItsTrace compares the data source with the services' exemplar label trace_id.
func TestAnExemplarOpensItsTrace(t *testing.T) {
	t.Parallel()
	provisioned, err := os.ReadFile(root + "/grafana/datasources.yml")
	must(t, err)
	for _, want := range []string{
		"exemplarTraceIdDestinations:\n", "- name: trace_id\n          datasourceUid: jaeger\n",
		"- name: trace_id\n          url: http://localhost:16686/trace/$${__value.raw}\n",
	} {
		if !strings.Contains(string(provisioned), want) {
			t.Errorf("%q is missing in datasources.yml", want)
		}
	}
}

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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
