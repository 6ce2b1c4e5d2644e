package system

import (
	"io"
	"net/http"
	"strings"

	"example.com/transactional-outbox/test/env/services"
)

// opsAddress returns where the service answers operators: metrics, health and the page.
func (s *service) opsAddress() string {
	s.Helper()
	return s.awaitLog(services.AnsweringOperators).Text("address")
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

// metric adds up the counters and gauges of a metric that have these labels. There must be one.
func (s *service) metric(name string, labels ...string) float64 {
	s.Helper()
	sum, err := s.Metric(s.Context(), name, labels...)
	must(s.T, err)
	return sum
}

// awaitMetric waits until a metric has a value, and fails when it exceeds the value.
func (s *service) awaitMetric(want float64, name string, labels ...string) {
	s.Helper()
	got := 0.0
	if !eventually(func() bool { got = s.metric(name, labels...); return got >= want }) || got > want {
		s.Fatalf("%s %v is %v, want %v", name, labels, got, want)
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
