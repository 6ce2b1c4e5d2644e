package store

import (
	"testing"

	"github.com/google/uuid"
)

// TestP7ASupersedingEventWaitsOnlyForOneInFlight, whatever else its older ones wait for. They are
// recorded with their failures.
func TestP7ASupersedingEventWaitsOnlyForOneInFlight(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		older func(f fixture, id uuid.UUID)
		waits bool
		want  row
	}{
		"due":     {older: func(fixture, uuid.UUID) {}},
		"delayed": {older: func(f fixture, _ uuid.UUID) { f.exec("UPDATE outbox_queue SET available_at = now() + interval '1h'") }},
		"parked":  {older: func(f fixture, _ uuid.UUID) { f.exec("UPDATE outbox_queue SET available_at = 'infinity'") }},
		"halted": {older: func(f fixture, _ uuid.UUID) {
			f.exec("UPDATE outbox_queue SET topic = 'away'")
			f.pause("away")
			f.wantClaimed()
			f.wantHalted(1)
		}},
		"failed": {
			older: func(f fixture, id uuid.UUID) {
				f.reschedule(f.claim(1), Failure{ID: id, Counts: true, Final: true, Code: "refused"})
			},
			want: row{RetryCount: 1, FailureCode: "refused"},
		},
		"in flight": {older: func(f fixture, _ uuid.UUID) { f.claim(1) }, waits: true},
		"locked": {older: func(f fixture, id uuid.UUID) {
			f.withRowLocked(id, func() { f.supersede("a", 3); f.wantClaimed() })
			f.exec("DELETE FROM outbox_queue WHERE version = 3")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			older := f.append("a", 1)[0]
			test.older(f, older)
			newer := f.supersede("a", 2)
			if test.waits {
				f.wantClaimed()
				f.wantDue(0, newer) // it is not parked
				return
			}
			if c := f.wantClaimed(newer); c.Superseded != 1 {
				t.Errorf("%d superseded", c.Superseded)
			}
			test.want.Status = "superseded"
			if got := f.row(older); got != test.want {
				t.Errorf("the older one is %+v, want %+v", got, test.want)
			}
			f.mark(older)
			f.wantStatus("published", older) // a confirm is a fact
		})
	}
}

// TestP7AMarkSupersedesWhatItsClaimDid: a failover has forgotten the claim, and a relay writes the
// mark again.
func TestP7AMarkSupersedesWhatItsClaimDid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	older, others := f.append("a", 1, 2, 3, 5), f.append("b", 1, 2)
	newer := f.supersede("a", 4)
	f.mark(older[2], newer, others[1])
	f.wantStatus("superseded", older[:2]...)
	f.wantStatus("published", older[2], newer, others[1])
	f.wantClaimed(older[3], others[0])
}

// TestAClaimThatTakesNothingIsNotRepeated: somebody has locked what the first free event ends.
func TestAClaimThatTakesNothingIsNotRepeated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	older := f.append("a", 1)[0]
	f.supersede("a", 2)
	f.appendMany(1)
	f.withRowLocked(older, func() {
		c, err := f.store.Claim(t.Context(), "test", 1, lease)
		if must(t, err); len(c.Events) > 0 || c.More {
			t.Errorf("claimed %d events, more: %t", len(c.Events), c.More)
		}
	})
}

// TestAClaimSupersedesInParts what would keep the claim lock for long.
func TestAClaimSupersedesInParts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.append("a", 1)
	f.appendLater("a", maxSupersede+10, "'infinity'")
	newest := f.supersede("a", maxSupersede+100)
	c, err := f.store.Claim(t.Context(), "test", 10, lease)
	if must(t, err); len(c.Events) != 0 || c.Superseded != maxSupersede || !c.More {
		t.Errorf("claimed %d, %d superseded", len(c.Events), c.Superseded)
	}
	c, err = f.store.Claim(t.Context(), "test", 10, lease)
	must(t, err)
	f.wantEvents(c, newest)
}
