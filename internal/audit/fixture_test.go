package audit_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/postgres"
	notificationmigrations "example.com/transactional-outbox/notification-service/migrations"
	ordermigrations "example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/test/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is the table of one service.
type fixture struct {
	*testing.T
	*audit.Log
	db *postgres.DB
}

// inEachService runs a test in the schema of each service, because each has its own migration.
func inEachService(t *testing.T, test func(fixture)) {
	for service, schema := range map[string]postgres.Migrations{
		"order-service":        {Files: ordermigrations.Files},
		"notification-service": {Files: notificationmigrations.Files},
	} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			db, _ := servers.Migrated(t, schema)
			test(fixture{t, audit.NewLog(db), db})
		})
	}
}

// record records a decision of each list of items as a batch.
func (f fixture) record(by audit.By, batches ...[]string) {
	f.Helper()
	for _, items := range batches {
		f.inTx(func(tx *postgres.Tx) error { return audit.Record(tx, by, audit.Replay, items) })
	}
}

func (f fixture) inTx(fn func(*postgres.Tx) error) {
	f.Helper()
	if err := f.db.InTx(f.Context(), fn); err != nil {
		f.Fatal(err)
	}
}

func (f fixture) exec(statement string) {
	f.Helper()
	f.inTx(func(tx *postgres.Tx) error { return tx.Gorm(f.Context()).Exec(statement).Error })
}

func (f fixture) count() (n int) {
	f.Helper()
	err := f.db.InSnapshot(f.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(f.Context()).Raw("SELECT count(*) FROM operator_decisions").Scan(&n).Error
	})
	if err != nil {
		f.Fatal(err)
	}
	return n
}

func (f fixture) list(before uuid.UUID, limit int) []audit.Decision {
	f.Helper()
	found, err := f.List(f.Context(), before, limit)
	if err != nil {
		f.Fatal(err)
	}
	return found
}

// ended is a context that has ended: the database is away for it.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
