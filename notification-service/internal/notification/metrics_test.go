package notification

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
)

// TestTheTimeFromTheEventToItsEmailIsMeasuredOnce: a repeat is not
// measured, and neither is an event without occurred_at.
func TestTheTimeFromTheEventToItsEmailIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	registry := prometheus.NewRegistry()
	d.service.metrics = NewMetrics(registry)
	minuteAgo, unknown := uuid.New(), uuid.New()
	for id, occurred := range map[uuid.UUID]time.Time{minuteAgo: time.Now().Add(-time.Minute), unknown: {}} {
		e := newEvent(uuid.New(), 1)
		e.OccurredAt = occurred
		n := d.want(Request{ID: id, Event: e, First: true}, Sending, true)
		for range 2 {
			if err := d.service.sendAndMark(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got dto.Metric
	if err := d.service.metrics.latency.Write(&got); err != nil {
		t.Fatal(err)
	}
	if h := got.GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() < 55 || h.GetSampleSum() > 120 {
		t.Errorf("%d measured, %v s in all; want one of about a minute", h.GetSampleCount(), h.GetSampleSum())
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
