package outbox_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// ledger records the events of a race: which were appended, and which may be deleted.
type ledger struct {
	mu       sync.Mutex
	appended []uuid.UUID
	finished map[uuid.UUID]time.Time // since when the event may be deleted
}

func (l *ledger) append(ids ...uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appended = append(l.appended, ids...)
}

// finish records events before their settling is committed: from then on they may be deleted.
func (l *ledger) finish(ids ...uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if _, there := l.finished[id]; !there {
			l.finished[id] = time.Now()
		}
	}
}

// check checks that no event is stored twice, and that only finished events older than the
// retention are missing.
func (l *ledger) check(f fixture, retention time.Duration) {
	f.Helper()
	var ids []uuid.UUID
	f.read(&ids, "SELECT id FROM outbox_status")
	slices.SortFunc(ids, func(x, y uuid.UUID) int { return strings.Compare(x.String(), y.String()) })
	if twice := len(ids) - len(slices.Compact(slices.Clone(ids))); twice > 0 {
		f.Errorf("%d events are stored twice", twice)
	}
	present := map[uuid.UUID]bool{}
	for _, id := range ids {
		present[id] = true
	}
	gone := 0
	for _, id := range l.appended {
		if present[id] {
			continue
		}
		gone++
		if finished, ok := l.finished[id]; !ok || time.Since(finished) < retention {
			f.Errorf("event %s is lost, finished: %t", id, ok)
		}
	}
	f.Logf("%d events were deleted", gone)
}

// TestP1NothingUnfinishedGoesWithItsPartition runs all of these at the same time: replicas append,
// with clocks that are right, slow or fast; relays mark, fail and lose their leases; operators
// replay and discard; janitors make and drop partitions of a second.
func TestP1NothingUnfinishedGoesWithItsPartition(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const retention = time.Second
	l := &ledger{finished: map[uuid.UUID]time.Time{}}
	var all sync.WaitGroup
	begin := time.Now()
	var dropped atomic.Int64
	// On a busy machine, the locks of a drop are often not free in time.
	enough := func() bool { return time.Since(begin) > 8*time.Second && dropped.Load() >= 2 }
	loop := func(step func()) {
		all.Go(func() {
			for !enough() && time.Since(begin) < time.Minute && !t.Failed() {
				step()
			}
		})
	}
	for _, clock := range []time.Duration{0, 0, -2 * time.Second, -time.Hour, 2 * time.Second, 6 * time.Second} {
		loop(func() { l.append(f.appendAt(clock + time.Duration(rand.IntN(100))*time.Millisecond)) })
	}
	for range 2 {
		loop(func() { relayPass(f, l) })
	}
	loop(func() { operatorPass(f, l) })
	for range 2 {
		loop(func() { dropped.Add(janitorPass(f, retention)) })
	}
	all.Wait()
	l.check(f, retention)
	t.Logf("%d events, %d partitions dropped", len(l.appended), dropped.Load())
	if dropped.Load() < 2 {
		t.Error("fewer than 2 partitions were dropped, so the test proves nothing")
	}
	f.exec(endBackOffs)
	f.endLeases()
	operatorPass(f, l)
	for c := f.claim(100); len(c.Events) > 0; c = f.claim(100) {
		must(t, f.store.MarkPublished(t.Context(), c.Token, idsOf(c)))
	}
	f.wantNone("SELECT count(*) FROM outbox_queue")
}

func relayPass(f fixture, l *ledger) {
	c, err := f.store.Claim(f.Context(), "race", 20, time.Duration(rand.IntN(50))*time.Millisecond)
	if err != nil {
		f.Error(err)
		return
	}
	var confirmed []uuid.UUID
	for _, e := range c.Events {
		switch rand.IntN(10) {
		case 0:
			_, _, err = f.store.Fail(f.Context(), c.Token, outbox.Failure{ID: e.ID, Code: "refused"})
		case 1: // not settled: the lease ends
		default:
			confirmed = append(confirmed, e.ID)
		}
		if err != nil {
			f.Error(err)
		}
	}
	l.finish(confirmed...)
	if err := f.store.MarkPublished(f.Context(), c.Token, confirmed); err != nil {
		f.Error(err)
	}
}

// operatorPass replays the failed events, and sometimes discards them.
func operatorPass(f fixture, l *ledger) {
	var failed []uuid.UUID
	f.read(&failed, "SELECT id FROM outbox_status WHERE status = 'failed'")
	decision := f.replay
	if rand.IntN(4) == 0 {
		decision = f.discard
		l.finish(failed...)
	}
	if err := decision(failed...); err != nil {
		f.Error(err)
	}
	// So some events stay failed for a while.
	time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
}

func janitorPass(f fixture, retention time.Duration) (dropped int64) {
	if _, err := f.store.MakePartition(f.Context(), time.Second); err != nil && !strings.Contains(err.Error(), lockBusy) {
		f.Error(err)
	}
	for {
		name, err := f.store.DropPartition(f.Context(), retention)
		if err != nil && !strings.Contains(err.Error(), lockBusy) {
			f.Error(err)
		}
		if name == "" {
			return dropped
		}
		dropped++
	}
}
