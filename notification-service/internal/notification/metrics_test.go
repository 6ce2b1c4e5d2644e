package notification

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"example.com/transactional-outbox/internal/postgres"
)

// TestTheTimeFromTheEventToItsEmailIsMeasuredOnce: a repeat measures nothing, and an
// event that does not tell when it occurred neither.
func TestTheTimeFromTheEventToItsEmailIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	registry := prometheus.NewRegistry()
	d.service.metrics = NewMetrics(registry)
	minuteAgo, unknown := uuid.New(), uuid.New()
	for id, occurred := range map[uuid.UUID]time.Time{minuteAgo: time.Now().Add(-time.Minute), unknown: {}} {
		e := anEvent(uuid.New(), 1)
		e.OccurredAt = occurred
		err := d.db.InTx(t.Context(), func(tx *postgres.Tx) error { return d.service.Record(t.Context(), tx, id, e) })
		if err != nil {
			t.Fatal(err)
		}
		d.want(id, "sent", nil)
		d.want(id, "sent", nil)
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
