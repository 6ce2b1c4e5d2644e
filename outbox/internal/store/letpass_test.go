package store

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// TestP7AFailedEventThatLetsPassHoldsNothingBack: it leaves its aggregate. The log still knows it.
func TestP7AFailedEventThatLetsPassHoldsNothingBack(t *testing.T) {
	t.Parallel()
	for letPass, want := range map[bool]int{true: 1, false: 0} {
		f := newFixture(t)
		ids := f.append("a", 1, 2, 3)
		c := f.claim(10)
		f.settle(Settlement{
			Token: c.Token, End: true, LetPass: letPass,
			Failures: []Failure{{ID: ids[0], Final: true, Code: "invalid"}},
		})
		next := f.claim(10)
		if len(next.Events) != want || want == 1 && next.Events[0].ID != ids[1] {
			t.Errorf("let pass %t: the next claim has %d events", letPass, len(next.Events))
		}
		f.wantNone("SELECT count(*) FROM outbox_status WHERE aggregate_id IS DISTINCT FROM 'a' OR version IS NULL")
		if got := f.row(ids[0]).Status; got != "failed" {
			t.Errorf("status %s", got)
		}
	}
}

// TestP7ARefusedEventHoldsTheLaterOnesBack, also if a failed one would let them pass.
func TestP7ARefusedEventHoldsTheLaterOnesBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("a", 1, 2)
	f.settle(Settlement{
		Token: f.claim(10).Token, End: true, LetPass: true,
		Failures: []Failure{{ID: ids[0], Counts: true, Delay: time.Hour, Code: "refused"}},
	})
	f.wantClaimed()
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
		f.settle(Settlement{Durable: true, Published: f.appendMany(1)})
		f.settle(Settlement{Published: f.appendMany(1)})
		if got := read[string](f, "SELECT string_agg(setting, ' ' ORDER BY setting = 'off') FROM seen"); got[0] != durable+" off" {
			t.Errorf("default %s: durable and not: %s", setting, got[0])
		}
		f.exec("TRUNCATE seen")
	}
}
