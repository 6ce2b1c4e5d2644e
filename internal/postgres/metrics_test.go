package postgres_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres/postgrestest"
)

// busyConnections is what the metrics of a pool say.
func busyConnections(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if family.GetName() == "db_pool_connections" && label.GetValue() == "busy" {
					return m.GetGauge().GetValue()
				}
			}
		}
	}
	t.Fatal("there is no such series")
	return 0
}

func TestMetricsOfThePoolAndTheOldestTransaction(t *testing.T) {
	t.Parallel()
	db, _ := postgrestest.Migrated(t, notes)
	// Two registries: a registry collects all metrics at once, and the age of the oldest transaction
	// needs a connection, which the pool's metrics would count.
	registry, oldest := prometheus.NewRegistry(), prometheus.NewRegistry()
	registry.MustRegister(db.Metrics("test"))
	oldest.MustRegister(db.OldestTransaction())
	if busy := busyConnections(t, registry); busy != 0 {
		t.Errorf("%v connections are busy", busy)
	}
	err := db.InGorm(t.Context(), func(tx *gorm.DB) error {
		if err := write(tx, 1); err != nil {
			return err
		}
		if busy := busyConnections(t, registry); busy != 1 {
			t.Errorf("%v connections are busy, want this one", busy)
		}
		if age := testutil.ToFloat64(db.OldestTransaction()); age <= 0 {
			t.Errorf("the oldest transaction is %v s old, and this one is open", age)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(prometheus.Gatherers{registry, oldest}); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
