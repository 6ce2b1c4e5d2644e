package store

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestAnyFailureReasonCanBeStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, reason := range []string{
		strings.Repeat("ä", 4000), strings.Repeat("x", 1023) + "€", "nul \x00 inside", "bad \xff utf-8", `\u0000 "`, "",
	} {
		ids := f.appendMany(1)
		failure := Failure{ID: ids[0], Code: "refused", Reason: reason}
		c := f.claim(10)
		if held := f.reschedule(c, failure); held != 1 {
			t.Errorf("with %.10q…: %d held", reason, held)
		}
		f.settle(Settlement{Token: c.Token, End: true, Paused: map[string]string{"order.created": reason}})
		f.exec("DELETE FROM outbox_topics")
		if got := read[string](f, "SELECT failure_reason FROM outbox_queue WHERE id = $1", ids[0])[0]; got != truncate(reason) {
			t.Errorf("stored %.10q… for %.10q…", got, reason)
		}
	}
}

// TestOverlappingMarksDoNotDeadlock marks the same rows over two connections. One prefers to read
// them by an index, the other one in the order of the table, which is the opposite one. Both wait
// for a row in the middle that a third transaction has locked. If each of them had locked half of
// the rows that the other one needs, PostgreSQL would abort one of them (40P01).
func TestOverlappingMarksDoNotDeadlock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []uuid.UUID
	for i := range 3 {
		id := uuid.New()
		id[0] = byte(3 - i)
		f.exec(oneSQL, id, 1, uuid.NewString())
		ids = append(ids, id)
	}
	var ends []func()
	events := f.events(ids...)
	f.withRowLocked(ids[1], func() {
		for i, cost := range []string{"0.1", "1000000"} {
			store := f.with(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["random_page_cost"] = cost }).store
			ends = append(ends, f.startUntilBlocked(i+1, func() error {
				_, err := store.Settle(t.Context(), Settlement{Published: events})
				return err
			}))
		}
	})
	for _, end := range ends {
		end()
	}
}

// TestAMarkWaitsForTheDiskIfTheRelaySaysSo, also if the role's default is that it does not.
func TestAMarkWaitsForTheDiskIfTheRelaySaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`CREATE TABLE seen (setting text);
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
		CREATE TRIGGER see AFTER DELETE ON outbox_queue FOR EACH STATEMENT EXECUTE FUNCTION see()`)
	for setting, durable := range map[string]string{"off": "on", "on": "on", "local": "local", "remote_apply": "remote_apply"} {
		f := f.with(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = setting })
		f.settle(Settlement{Durable: true, Published: f.events(f.appendMany(1)...)})
		f.settle(Settlement{Published: f.events(f.appendMany(1)...)})
		if got := read[string](f, "SELECT string_agg(setting, ' ' ORDER BY setting = 'off') FROM seen"); got[0] != durable+" off" {
			t.Errorf("default %s: durable and not: %s", setting, got[0])
		}
		f.exec("TRUNCATE seen")
	}
}
