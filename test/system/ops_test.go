package system

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// opsAddress returns where the service answers operators: metrics and health.
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

// metricSum adds up all series of a metric, or of those that have the given labels. There
// may be none.
func (s *service) metricSum(name string) (sum float64, found bool) {
	s.Helper()
	_, text := s.getOps("/metrics")
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if series == name || strings.HasPrefix(series, name+"{") {
			number, err := strconv.ParseFloat(value, 64)
			must(s.T, err)
			sum, found = sum+number, true
		}
	}
	return sum, found
}

// metric returns the value of one series, which must exist.
func (s *service) metric(series string) float64 {
	s.Helper()
	value, found := s.metricSum(series)
	if !found {
		s.Fatalf("there is no series %s", series)
	}
	return value
}

// awaitMetric waits until a series has a value, and fails when it exceeds the value.
func (s *service) awaitMetric(series string, want float64) {
	s.Helper()
	got := 0.0
	reached := func() bool { got = s.metric(series); return got >= want }
	if !poll(20*time.Millisecond, awaitTimeout, reached) || got > want {
		s.Fatalf("%s is %v, want %v", series, got, want)
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
	if !eventually(awaitTimeout, func() bool {
		if live, _ := s.getOps("/livez"); live != http.StatusOK {
			s.Fatalf("/livez answers %d", live)
		}
		status, text = s.getOps("/readyz")
		return status == want && text == answer
	}) {
		s.Fatalf("/readyz answers %d %q, want %d %q", status, text, want, answer)
	}
}
