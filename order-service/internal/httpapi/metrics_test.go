package httpapi_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"example.com/transactional-outbox/test/env/check"
)

const durations = "http_request_duration_seconds"

func (b fixture) series() int {
	b.Helper()
	n, err := testutil.GatherAndCount(b.registry, durations)
	check.Must(b, err)
	return n
}

func TestRandomPathsAndMethodsAddNoSeries(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	before := b.series()
	if before == 0 {
		t.Fatal("no series before the first request")
	}
	for i := range 50 {
		b.send(http.MethodGet, fmt.Sprintf("/%d/%d", i, i), "")
		b.send(fmt.Sprintf("METHOD%d", i%50), "/orders", "")
	}
	b.send(http.MethodPost, "/orders", oneMug, "Content-Type", "application/json")
	b.send(http.MethodPost, "/orders", "{", "Content-Type", "application/json")
	if after := b.series(); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	if problems, err := testutil.GatherAndLint(b.registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func TestARequestIsCountedWithItsRouteAndTrace(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.send(http.MethodPost, "/orders", oneMug, "Content-Type", "application/json")
	counted := b.histogram(map[string]string{"method": "POST", "route": "/orders", "code": "2xx"})
	if counted.GetSampleCount() != 1 {
		t.Errorf("counted %d times", counted.GetSampleCount())
	}
	for _, bucket := range counted.GetBucket() {
		if e := bucket.GetExemplar(); e != nil && e.GetLabel()[0].GetName() == "trace_id" {
			return
		}
	}
	t.Error("no exemplar")
}

func (b fixture) histogram(labels map[string]string) *dto.Histogram {
	b.Helper()
	return b.metric(labels).GetHistogram()
}

// metric returns the metric with these labels.
func (b fixture) metric(labels map[string]string) *dto.Metric {
	b.Helper()
	families, err := b.registry.Gather()
	check.Must(b, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if matches := len(m.GetLabel()) == len(labels); matches {
				for _, l := range m.GetLabel() {
					matches = matches && labels[l.GetName()] == l.GetValue()
				}
				if matches {
					return m
				}
			}
		}
	}
	b.Fatalf("no series %v", labels)
	return nil
}
