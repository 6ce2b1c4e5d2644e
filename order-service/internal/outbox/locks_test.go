package outbox_test

import (
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// withRowLocked runs fn while another transaction has locked the row of an event.
func (f fixture) withRowLocked(id uuid.UUID, fn func()) {
	f.Helper()
	err := f.db.InTx(f.Context(), func(tx *postgres.Tx) error {
		if err := tx.Gorm(f.Context()).Exec("SELECT 1 FROM outbox_queue WHERE id = ? FOR UPDATE", id).Error; err != nil {
			return err
		}
		fn()
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
}

// withPausedWrites makes each write of one kind, such as "INSERT ON outbox_claims", wait inside its
// statement until fn returns.
func (f fixture) withPausedWrites(what string, fn func()) {
	f.Helper()
	f.exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_advisory_xact_lock(1);
		RETURN NULL;
	END $$`)
	f.exec("CREATE TRIGGER wait AFTER " + what + " FOR EACH ROW EXECUTE FUNCTION wait()")
	must(f.T, f.db.InTx(f.Context(), func(tx *postgres.Tx) error {
		must(f.T, tx.Gorm(f.Context()).Exec("SELECT pg_advisory_xact_lock(1)").Error)
		fn()
		return nil
	}))
}

// startUntilBlocked starts fn. It returns when fn has ended, or when as many statements as waiters
// wait for a lock. The function that it returns waits until fn ends.
func (f fixture) startUntilBlocked(waiters int, fn func() error) (end func()) {
	f.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	ask := time.NewTicker(5 * time.Millisecond)
	defer ask.Stop()
	for waiting := 0; waiting < waiters && len(done) == 0; <-ask.C {
		f.read(&waiting, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
	}
	return func() {
		f.Helper()
		if err := <-done; err != nil {
			f.Error(err)
		}
	}
}
