package observe

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"strconv"
	"time"
)

// Series is what a query returns: labels, and values that are numbers.
type Series struct {
	Labels map[string]string
	Values []float64
}

type answer struct {
	Result []struct {
		Metric map[string]string
		Value  [2]any
		Values [][2]any
	}
}

// Ask runs a query as its panel does: now, or over the time since the given moment.
// Values that are no number are left out, and so are series without any other: a panel
// shows nothing for them.
func (p *Prometheus) Ask(q Query, since time.Time) ([]Series, error) {
	path, parameters := "query", url.Values{"query": {q.Expr}}
	if q.Range {
		path = "query_range"
		maps.Copy(parameters, period(since))
		parameters.Set("step", "1")
	}
	var found answer
	if err := p.Get(path, parameters, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", q.Where, err)
	}
	return found.series(), nil
}

func (a answer) series() (all []Series) {
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

// Exemplars returns the labels of the query's exemplars since the given moment.
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

// ActiveAlert is one that is pending or fires.
type ActiveAlert struct {
	Labels, Annotations map[string]string
	State               string
}

// ActiveAlerts returns those of now.
func (p *Prometheus) ActiveAlerts() ([]ActiveAlert, error) {
	var found struct{ Alerts []ActiveAlert }
	err := p.Get("alerts", nil, &found)
	return found.Alerts, err
}
