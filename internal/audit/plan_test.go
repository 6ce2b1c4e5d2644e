package audit_test

import (
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/postgres"
)

// TestQueriesReadIndexesOnly however many decisions there are.
func TestQueriesReadIndexesOnly(t *testing.T) {
	t.Parallel()
	inEachService(t, func(f fixture) {
		f.exec(`INSERT INTO operator_decisions (id, decision, operator, via, action, filter, items, at)
			SELECT gen_random_uuid(), gen_random_uuid(), 'ann', 'cli', 'replay', 'ids', ARRAY[n::text, (n + 1)::text],
			       now() - n * interval '1 minute' FROM generate_series(1, 20000) n`)
		f.exec("ANALYZE operator_decisions")
		for query, index := range map[string]string{
			audit.ListSQL: "operator_decisions_decision", audit.GetSQL: "operator_decisions_decision",
			audit.BatchesSQL: "operator_decisions_decision", audit.OfSQL: "operator_decisions_items",
			audit.PruneSQL: "operator_decisions_age",
		} {
			var lines []string
			f.inTx(func(tx *postgres.Tx) error {
				return tx.Gorm(f.Context()).Raw("EXPLAIN "+query, map[string]any{
					"before": "ffffffff-ffff-ffff-ffff-ffffffffffff", "decision": "00000000-0000-0000-0000-000000000000",
					"after": "00000000-0000-0000-0000-000000000000", "limit": 50, "items": "{7}", "retention": 1.5,
				}).Scan(&lines).Error
			})
			if plan := strings.Join(lines, "\n"); !strings.Contains(plan, index) || strings.Contains(plan, "Seq Scan") {
				f.Errorf("%s has the plan\n%s", query, plan)
			}
		}
	})
}
