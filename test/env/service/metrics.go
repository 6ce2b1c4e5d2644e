package service

import (
	"context"
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are the samples of one answer of /metrics, by name.
type Metrics map[string]*dto.MetricFamily

// Metrics reads /metrics of the process.
func (s *Service) Metrics(ctx context.Context) (Metrics, error) {
	url, err := s.Address(ctx, AnsweringOperators)
	if err != nil {
		return nil, err
	}
	return ReadMetrics(ctx, url+"/metrics")
}

// ReadMetrics reads the metrics at a URL.
func ReadMetrics(ctx context.Context, url string) (Metrics, error) {
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

// Value returns the sum of the samples of a counter or a gauge that have these labels, which are pairs
// of a name and a value. It returns 0 if there is none.
func (m Metrics) Value(name string, labels ...string) (sum float64) {
	for _, sample := range m[name].GetMetric() {
		if has(sample, labels) {
			sum += sample.GetCounter().GetValue() + sample.GetGauge().GetValue() + sample.GetUntyped().GetValue()
		}
	}
	return sum
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
