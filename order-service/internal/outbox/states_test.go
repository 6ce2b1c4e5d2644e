package outbox_test

import (
	"maps"
	"testing"
)

// steps are the ways from state to state: those that the comment of the table shows, and
// whether a model that takes a hundred times a few dozen of them must have seen each.
var steps = map[string]bool{
	"pending → in_progress":     true,
	"in_progress → in_progress": true, // the lease has ended
	"in_progress → published":   true,
	"in_progress → pending":     true,
	"in_progress → failed":      true,
	"failed → pending":          true,
	"failed → discarded":        true,
	"published → gone":          true,
	"discarded → gone":          true,
	// A confirm is a fact, whatever has become of the event meanwhile. Chance comes there
	// too seldom; there are tests of its own.
	"pending → published":   false,
	"failed → published":    false,
	"discarded → published": false,
}

// noteSteps makes the table remember the steps of its events.
func (b bench) noteSteps() {
	b.Helper()
	b.exec("CREATE TABLE steps (step text)")
	b.exec(`CREATE FUNCTION note_step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF TG_OP = 'DELETE' THEN
			INSERT INTO steps VALUES (OLD.status || ' → gone');
		ELSIF OLD.status <> NEW.status OR OLD.lease_token <> NEW.lease_token THEN
			INSERT INTO steps VALUES (OLD.status || ' → ' || NEW.status);
		END IF;
		RETURN NULL;
	END $$`)
	b.exec("CREATE TRIGGER note_step AFTER UPDATE OR DELETE ON outbox_events FOR EACH ROW EXECUTE FUNCTION note_step()")
}

// wantSteps wants every step to be one of these, and all that must be to have been taken.
func (b bench) wantSteps(t *testing.T) {
	t.Helper()
	var taken []struct {
		Step  string
		Times int
	}
	b.read(&taken, "SELECT step, count(*) AS times FROM steps GROUP BY step")
	t.Logf("steps that were taken: %v", taken)
	missing := maps.Clone(steps)
	for _, s := range taken {
		if _, known := steps[s.Step]; !known {
			t.Errorf("no event may go %s", s.Step)
		}
		delete(missing, s.Step)
	}
	for step, must := range missing {
		if must {
			t.Errorf("no event went %s", step)
		}
	}
}
