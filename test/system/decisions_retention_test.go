package system

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// TestOldDecisionsOfOperatorsArePruned by both services, with the rights of their roles. Younger
// ones stay.
func TestOldDecisionsOfOperatorsArePruned(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	databases := []*pgxpool.Pool{s.ordersDB, s.notificationsDB}
	for _, db := range databases {
		_, err := db.Exec(t.Context(), `INSERT INTO operator_decisions (id, decision, at, operator, via, action, filter, items)
			SELECT gen_random_uuid(), gen_random_uuid(), now() - age, 'ann', 'cli', 'replay', 'ids', '{a}'
			FROM unnest('{366 days, 364 days}'::interval[]) age`)
		must(t, err)
	}
	s.runOrders()
	s.runNotifications()
	for _, db := range databases {
		s.awaitCount(db, 1, "SELECT count(*) FROM operator_decisions")
		if n := queryValue[int](s, db, "SELECT count(*) FROM operator_decisions WHERE at > now() - interval '365 days'"); n != 1 {
			t.Errorf("%d decisions that are younger than the retention are left, want 1", n)
		}
	}
}
