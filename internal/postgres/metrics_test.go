package postgres_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres/postgrestest"
)

func value(t *testing.T, registry *prometheus.Registry, name, state string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (state == "" || has(m, state)) {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no series %s %s", name, state)
	return 0
}

func has(m *dto.Metric, state string) bool {
	for _, l := range m.GetLabel() {
		if l.GetValue() == state {
			return true
		}
	}
	return false
}

func TestMetricsOfThePoolAndTheOldestTransaction(t *testing.T) {
	t.Parallel()
	db, _ := postgrestest.Migrated(t, notes)
	// Two registries: a registry collects all metrics at once, and the age of the oldest transaction
	// needs a connection, which the pool's metrics would count.
	registry, oldest := prometheus.NewRegistry(), prometheus.NewRegistry()
	registry.MustRegister(db.Metrics("test"))
	oldest.MustRegister(db.OldestTransaction())
	if busy := value(t, registry, "db_pool_connections", "busy"); busy != 0 {
		t.Errorf("%v connections are busy", busy)
	}
	err := db.InGorm(t.Context(), func(tx *gorm.DB) error {
		if err := write(tx, 1); err != nil {
			return err
		}
		if busy := value(t, registry, "db_pool_connections", "busy"); busy != 1 {
			t.Errorf("%v connections are busy, want this one", busy)
		}
		if age := value(t, oldest, "db_oldest_transaction_age_seconds", ""); age <= 0 {
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
