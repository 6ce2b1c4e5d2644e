package services

import (
	"context"
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metric adds up the counters and gauges of a metric that have these labels: pairs of a name and a
// value. If there is none, it is an error.
func (s *Process) Metric(ctx context.Context, name string, labels ...string) (sum float64, err error) {
	url, err := s.Address(ctx, AnsweringOperators)
	if err != nil {
		return 0, err
	}
	families, err := metricsAt(ctx, url+"/metrics")
	found := false
	for _, sample := range families[name].GetMetric() {
		if has(sample, labels) {
			sum, found = sum+sample.GetCounter().GetValue()+sample.GetGauge().GetValue(), true
		}
	}
	if err == nil && !found {
		err = fmt.Errorf("%s has no series %s %v", s.name, name, labels)
	}
	return sum, err
}

func metricsAt(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

func has(sample *dto.Metric, labels []string) bool {
	have := map[string]string{}
	for _, l := range sample.GetLabel() {
		have[l.GetName()] = l.GetValue()
	}
	for i := 0; i+1 < len(labels); i += 2 {
		if have[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}
