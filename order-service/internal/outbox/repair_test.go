package outbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestWhatIsInTheWayOfClaimsIsParked has a row behind an older one in each state, due
// before it, as an append that overlaps the step leaves it.
func TestWhatIsInTheWayOfClaimsIsParked(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]struct {
		set string
		due float64 // in seconds, of the younger one
	}{
		"failed":                {"status = 'failed', failed_at = now()", parked},
		"backed off":            {"available_at = now() + interval '1 hour'", 3600},
		"released":              {"available_at = now() - interval '1 hour'", -3600},
		"of a relay that died":  {"status = 'in_progress', lease_token = id, locked_by = 'x', available_at = now() - interval '1 hour'", -3600},
		"in somebody's hands":   {"status = 'in_progress', lease_token = id, locked_by = 'x', available_at = now() + interval '1 hour'", -7200},
		"published":             {"status = 'published', published_at = now(), available_at = now() + interval '1 hour'", -7200},
		"where it should be by": {"available_at = now() - interval '3 hours'", -7200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ids := b.append(uuid.New(), 1, 2, 3)
			b.exec("UPDATE outbox_events SET available_at = now() - interval '2 hours'")
			b.exec("UPDATE outbox_events SET "+older.set+" WHERE id = ?", ids[0])
			for _, want := range []bool{older.due != -7200, false} {
				n, err := b.store.ParkBlocked(t.Context(), 100)
				if moved := n == 2; moved != want || err != nil {
					t.Errorf("%d moved, error %v, want any: %t", n, err, want)
				}
			}
			b.wantDue(older.due, ids[1:]...)
		})
	}
}

// TestNothingIsParkedBehindAnEventThatSomebodyDecidesAbout: he would not see it.
func TestNothingIsParkedBehindAnEventThatSomebodyDecidesAbout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.append(uuid.New(), 1, 2)
	b.exec("UPDATE outbox_events SET status = 'failed', failed_at = now() WHERE id = ?", ids[0])
	b.locked(ids[0], func() {
		if n, err := b.store.ParkBlocked(t.Context(), 100); n != 0 || err != nil {
			t.Errorf("%d moved, error %v", n, err)
		}
	})
	b.wantDue(0, ids[1])
}

// TestWhatIsParkedBehindNothingComesBack page by page, among those that stay.
func TestWhatIsParkedBehindNothingComesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held, strayed := b.append(uuid.New(), 1, 2, 3), b.append(uuid.New(), 1, 2, 3)
	b.fail(held[0])
	b.exec("UPDATE outbox_events SET available_at = now() + interval '1 hour' WHERE id = ?", strayed[0])
	b.exec("UPDATE outbox_events SET available_at = 'infinity' WHERE id IN ?", strayed[1:])
	after := int64(0)
	for i, want := range []int{0, 1, 1, 0} { // a row of each page is found where it should be, or freed
		freed, last, err := b.store.FreeStrayed(t.Context(), after, []int{2, 1, 1, 1}[i])
		if freed != want || err != nil || (last == 0) != (i == 3) {
			t.Errorf("page %d: %d freed, up to %d, error %v, want %d", i+1, freed, last, err, want)
		}
		after = last
	}
	b.wantDue(parked, held[1:]...)
	b.wantDue(3600, strayed[1:]...)
}

// TestTheJanitorRepairsBoth leaves a row in the way, and one parked behind nothing.
func TestTheJanitorRepairsBoth(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	blocked, strayed := b.append(uuid.New(), 1, 2), b.append(uuid.New(), 1)
	b.exec("UPDATE outbox_events SET status = 'failed', failed_at = now() WHERE id = ?", blocked[0])
	b.exec("UPDATE outbox_events SET available_at = 'infinity' WHERE id IN ?", strayed)
	b.tidyUntil("SELECT ("+astray+") + ("+inTheWay+")", time.Hour)
	b.wantDue(parked, blocked[1])
	b.wantDue(0, strayed...)
}

// tidyUntil lets the janitor work until the query counts nothing any more.
func (b bench) tidyUntil(count string, retention time.Duration) {
	b.Helper()
	ctx, end := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.store.KeepTidy(ctx, retention) }()
	ask := time.NewTicker(10 * time.Millisecond)
	defer ask.Stop()
	deadline := time.Now().Add(time.Minute)
	left := 1
	for ; left > 0 && time.Now().Before(deadline); <-ask.C {
		b.read(&left, count)
	}
	end()
	if err := <-ended; err != nil || left > 0 {
		b.Errorf("%d left, error %v", left, err)
	}
}
