package system

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// opsAddress returns where the service answers operators: metrics, health and the page.
func (s *service) opsAddress() string {
	s.Helper()
	return fmt.Sprint(s.awaitLog("answering operators")["address"])
}

func (s *service) getOps(path string) (status int, text string) {
	s.Helper()
	response, err := http.Get("http://" + s.opsAddress() + path)
	must(s.T, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(s.T, err)
	return response.StatusCode, string(body)
}

// labels choose series of a metric.
type labels map[string]string

// metric adds up the counters and gauges of a metric that have these labels. There must be one.
func (s *service) metric(name string, want labels) (sum float64) {
	s.Helper()
	_, text := s.getOps("/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	must(s.T, err)
	found := false
	for _, m := range families[name].GetMetric() {
		matching := 0
		for _, l := range m.GetLabel() {
			if value, named := want[l.GetName()]; named && value == l.GetValue() {
				matching++
			}
		}
		if matching == len(want) {
			sum, found = sum+m.GetCounter().GetValue()+m.GetGauge().GetValue(), true
		}
	}
	if !found {
		s.Fatalf("there is no series %s %v", name, want)
	}
	return sum
}

// awaitMetric waits until a metric has a value, and fails when it exceeds the value.
func (s *service) awaitMetric(name string, of labels, want float64) {
	s.Helper()
	got := 0.0
	if !eventually(func() bool { got = s.metric(name, of); return got >= want }) || got > want {
		s.Fatalf("%s %v is %v, want %v", name, of, got, want)
	}
}

// awaitReadyz waits until /readyz names exactly these checks as failed. None means that the service
// is ready. /livez must answer 200 all the time.
func (s *service) awaitReadyz(failed ...string) {
	s.Helper()
	want, answer := http.StatusOK, "ok\n"
	if failed != nil {
		want, answer = http.StatusServiceUnavailable, "not ready: "+strings.Join(failed, ", ")+"\n"
	}
	status, text := 0, ""
	if !eventually(func() bool {
		if live, _ := s.getOps("/livez"); live != http.StatusOK {
			s.Fatalf("/livez answers %d", live)
		}
		status, text = s.getOps("/readyz")
		return status == want && text == answer
	}) {
		s.Fatalf("/readyz answers %d %q, want %d %q", status, text, want, answer)
	}
}
