package observe

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
)

// timeout limits the start and the end of Prometheus.
const timeout = 60 * time.Second

// Prometheus is a private server for a test.
type Prometheus struct {
	testing.TB
	url string
	api prometheus.API
}

// Program returns the path of prometheus or promtool: from PATH, or the one that `make verify` has
// unpacked.
func Program(tb testing.TB, root, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath(filepath.Join(root, "build/tools/prometheus/usr/bin", name))
	}
	if err != nil {
		tb.Fatalf("%v; run `make verify ARGS=proof`, which downloads it", err)
	}
	return path
}

// StartPrometheus starts a server with the repository's rules and jobs, but with other targets and
// intervals. The server ends with the test.
func StartPrometheus(tb testing.TB, root string, targets map[string]string, interval time.Duration) *Prometheus {
	tb.Helper()
	folder := tb.TempDir()
	file := filepath.Join(folder, "prometheus.yml")
	check.Must(tb, os.WriteFile(file, []byte(configuration(tb, root, targets, interval)), 0o600))
	address := servers.FreeAddress(tb)
	p := &Prometheus{TB: tb, url: "http://" + address}
	client, err := api.NewClient(api.Config{Address: p.url})
	check.Must(tb, err)
	p.api = prometheus.NewAPI(client)
	p.run(filepath.Join(folder, "log"), exec.CommandContext(tb.Context(), Program(tb, root, "prometheus"), //nolint:gosec // Prometheus, with our own arguments
		"--config.file="+file, "--web.listen-address="+address,
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--enable-feature=exemplar-storage"))
	return p
}

// Draw draws the dashboards into a folder. It fails if a panel has no data, or a text is cut off.
func (p *Prometheus) Draw(root, folder string) (output []byte, err error) {
	draw := exec.CommandContext(p.Context(), "scripts/draw", p.url, folder, "2", "1") //nolint:gosec // our own arguments
	draw.Dir = root
	return draw.CombinedOutput()
}

// run starts the server, and returns when it is ready.
func (p *Prometheus) run(log string, command *exec.Cmd) {
	p.Helper()
	server, err := process.Start(command, process.WithParent, log)
	check.Must(p, err)
	p.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := server.End(ctx, syscall.SIGTERM); err != nil {
			p.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(p.Context(), timeout)
	defer cancel()
	if err := server.AwaitReady(ctx, p.ready); err != nil {
		p.Fatalf("Prometheus: %v; the end of its log:\n%s", err, process.LastLines(log))
	}
}

var (
	intervals = regexp.MustCompile(`(scrape|evaluation)_interval: \S+`)
	ruleFiles = regexp.MustCompile(`rule_files: \[(\S+)\]`)
	byName    = regexp.MustCompile(`dns_sd_configs:\s+- \{names: \[(\S+)\], type: A, port: (\d+), .+\}`)
)

func configuration(tb testing.TB, root string, targets map[string]string, interval time.Duration) string {
	tb.Helper()
	folder, err := filepath.Abs(filepath.Join(root, "prometheus"))
	check.Must(tb, err)
	text, err := fs.ReadFile(os.DirFS(folder), "prometheus.yml")
	check.Must(tb, err)
	config := intervals.ReplaceAllString(string(text), "${1}_interval: "+interval.String())
	config = ruleFiles.ReplaceAllString(config, "rule_files: ["+folder+"/$1]")
	config = byName.ReplaceAllString(config, "static_configs: [{targets: [$1:$2]}]")
	for target, instead := range targets {
		if !strings.Contains(config, "["+target+"]") {
			tb.Fatalf("prometheus.yml has no target %s", target)
		}
		config = strings.ReplaceAll(config, "["+target+"]", "["+instead+"]")
	}
	return config
}

// ready asks for what the server has loaded, which it answers once it is ready.
func (p *Prometheus) ready(ctx context.Context) error {
	_, err := p.api.Config(ctx)
	return err
}

// Series is one series of a query's result.
type Series struct {
	Labels model.Metric
	Values []float64
}

// Query runs a query as its panel does: an instant query, or a range query since the given time. It
// leaves out NaN and infinite values, and series without other values: a panel does not show them.
func (p *Prometheus) Query(q Query, since time.Time) (all []Series, err error) {
	var result model.Value
	if q.Range {
		period := prometheus.Range{Start: since, End: time.Now().Add(time.Second), Step: time.Second}
		result, _, _, err = p.api.QueryRange(p.Context(), q.Expr, period)
	} else {
		result, _, _, err = p.api.Query(p.Context(), q.Expr, time.Time{})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.Where, err)
	}
	add := func(labels model.Metric, samples ...model.SampleValue) {
		s := Series{Labels: labels}
		for _, sample := range samples {
			if value := float64(sample); !math.IsNaN(value) && !math.IsInf(value, 0) {
				s.Values = append(s.Values, value)
			}
		}
		if s.Values != nil {
			all = append(all, s)
		}
	}
	switch result := result.(type) {
	case model.Vector:
		for _, sample := range result {
			add(sample.Metric, sample.Value)
		}
	case model.Matrix:
		for _, series := range result {
			var samples []model.SampleValue
			for _, pair := range series.Values {
				samples = append(samples, pair.Value)
			}
			add(series.Metric, samples...)
		}
	}
	return all, nil
}

// Exemplars returns the labels of the query's exemplars since the given time.
func (p *Prometheus) Exemplars(q Query, since time.Time) (labels []model.LabelSet, err error) {
	found, err := p.api.QueryExemplars(p.Context(), q.Expr, since, time.Now().Add(time.Second))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.Where, err)
	}
	for _, series := range found {
		for _, exemplar := range series.Exemplars {
			labels = append(labels, exemplar.Labels)
		}
	}
	return labels, nil
}

// ActiveAlerts returns the pending and firing alerts.
func (p *Prometheus) ActiveAlerts() ([]prometheus.Alert, error) {
	found, err := p.api.Alerts(p.Context())
	return found.Alerts, err
}
