package observe

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Series is one series of a query's result.
type Series struct {
	Labels map[string]string
	Values []float64
}

type queryResult struct {
	Result []struct {
		Metric map[string]string
		Value  [2]any
		Values [][2]any
	}
}

// Query runs a query as its panel does: an instant query, or a range query since the given time. It
// leaves out NaN and infinite values, and series without other values: a panel does not show them.
func (p *Prometheus) Query(q Query, since time.Time) ([]Series, error) {
	path, parameters := "query", url.Values{"query": {q.Expr}}
	if q.Range {
		path = "query_range"
		maps.Copy(parameters, period(since))
		parameters.Set("step", "1")
	}
	var found queryResult
	if err := p.Get(path, parameters, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", q.Where, err)
	}
	return found.series(), nil
}

func (a queryResult) series() (all []Series) {
	for _, r := range a.Result {
		s := Series{Labels: r.Metric}
		for _, sample := range append(r.Values, r.Value) {
			text, _ := sample[1].(string)
			if value, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(value) && !math.IsInf(value, 0) {
				s.Values = append(s.Values, value)
			}
		}
		if s.Values != nil {
			all = append(all, s)
		}
	}
	return all
}

// Exemplars returns the labels of the query's exemplars since the given time.
func (p *Prometheus) Exemplars(q Query, since time.Time) (labels []map[string]string, err error) {
	parameters := period(since)
	parameters.Set("query", q.Expr)
	var found []struct {
		Exemplars []struct{ Labels map[string]string }
	}
	if err := p.Get("query_exemplars", parameters, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", q.Where, err)
	}
	for _, series := range found {
		for _, exemplar := range series.Exemplars {
			labels = append(labels, exemplar.Labels)
		}
	}
	return labels, nil
}

func period(since time.Time) url.Values {
	seconds := func(t time.Time) []string { return []string{strconv.FormatInt(t.Unix(), 10)} }
	return url.Values{"start": seconds(since), "end": seconds(time.Now().Add(time.Second))}
}

// ActiveAlert is a pending or firing alert.
type ActiveAlert struct {
	Labels, Annotations map[string]string
	State               string
}

// ActiveAlerts returns the active alerts.
func (p *Prometheus) ActiveAlerts() ([]ActiveAlert, error) {
	var found struct{ Alerts []ActiveAlert }
	err := p.Get("alerts", nil, &found)
	return found.Alerts, err
}

// Get calls the HTTP API and decodes the data of its answer.
func (p *Prometheus) Get(path string, parameters url.Values, data any) error {
	request, err := http.NewRequestWithContext(p.Context(), http.MethodGet, p.url+"/api/v1/"+path+"?"+parameters.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return fmt.Errorf("%s: %s", parameters.Get("query"), answer.Error)
	}
	return nil
}
