package outbox_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

const (
	day      = 24 * time.Hour
	aWeek    = 7 * day
	lockBusy = "55P03"
)

// oldPartition makes a partition of eight to nine days ago. It appends one event to it for each of
// these settings of outbox_status, and returns their ids.
func (f fixture) oldPartition(events ...string) (ids []uuid.UUID) {
	f.Helper()
	f.createPartition(9*day, 8*day)
	for _, set := range events {
		id := f.appendAt(-204 * time.Hour)
		f.exec("UPDATE outbox_status SET created_at = now() - interval '204 hours', "+set+" WHERE id = ?", id)
		ids = append(ids, id)
	}
	return ids
}

// appendAt commits an event of a replica whose clock is wrong by this much.
func (f fixture) appendAt(clock time.Duration) uuid.UUID {
	f.Helper()
	m := message(uuid.New(), 1)
	m.ID = idAt(f.T, clock)
	f.commit([]outbox.Message{m})
	return m.ID
}

// idAt returns a new id from a clock that is wrong by this much.
func idAt(t *testing.T, clock time.Duration) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	must(t, err)
	var milliseconds [8]byte
	binary.BigEndian.PutUint64(milliseconds[:], uint64(time.Now().Add(clock).UnixMilli()))
	copy(id[:6], milliseconds[2:])
	return id
}

// createPartition makes a partition for the events whose age is between to and from.
func (f fixture) createPartition(from, to time.Duration) {
	f.Helper()
	for _, table := range []string{"outbox_events", "outbox_published"} {
		f.exec(`DO $$ BEGIN EXECUTE format('CREATE TABLE ` + table + `_old PARTITION OF ` + table + ` FOR VALUES FROM (%L) TO (%L)',
			outbox_first_id(now() - interval '` + from.String() + `'), outbox_first_id(now() - interval '` + to.String() + `')); END $$`)
	}
}

func (f fixture) wantDropped(want string) {
	f.Helper()
	if got, err := f.store.DropPartition(f.Context(), aWeek); got != want || err != nil {
		f.Errorf("dropped %q, error %v, want %q", got, err, want)
	}
}

// TestDropPartitionKeepsUnfinishedEvents, and those that were finished within the retention. An old
// partition has an event of each kind.
func TestDropPartitionKeepsUnfinishedEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const longAgo = "now() - interval '190 hours'"
	kept := []string{
		"status = 'pending'",
		"status = 'pending', available_at = 'infinity'",
		"status = 'pending', failure_code = 'unroutable', available_at = now() + interval '1 hour'",
		"status = 'in_progress', lease_token = gen_random_uuid(), locked_by = 'w', available_at = now() + interval '1 hour'",
		"status = 'failed', failed_at = " + longAgo + ", failure_code = 'refused', failure_reason = 'full', retry_count = 20",
		"status = 'published', published_at = now() - interval '160 hours', retry_count = 3",
		// The view's trigger sets discarded_at to the same time.
		"status = 'discarded', failed_at = now() - interval '160 hours'",
	}
	ids := f.oldPartition(append(kept,
		"status = 'published', published_at = "+longAgo,
		"status = 'discarded', failed_at = "+longAgo)...)
	before := f.statuses("outbox_status")
	f.wantDropped("outbox_events_old")
	if after := f.statuses("outbox_status"); !slices.Equal(after, before[:len(kept)]) {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(after, "\n"), strings.Join(before[:len(kept)], "\n"))
	}
	f.wantNone("SELECT count(*) FROM outbox_events e WHERE id NOT IN (SELECT id FROM outbox_status)")
	f.wantNone("SELECT count(*) FROM outbox_published e WHERE id NOT IN (SELECT id FROM outbox_events)")
	f.wantNone("SELECT count(*) FROM outbox_discarded e WHERE id NOT IN (SELECT id FROM outbox_events)")
	f.wantDropped("")
	must(t, f.replay(ids[4]))
	if claimed := idsOf(f.claim(10)); !slices.Equal(claimed, []uuid.UUID{ids[0], ids[4]}) {
		t.Errorf("claimed %v", claimed)
	}
}

func TestDropPartitionWaitsUntilTheWholeRangeIsOld(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.createPartition(8*day, aWeek-time.Minute)
	f.wantDropped("")
	if dropped, err := f.store.DropPartition(t.Context(), aWeek-2*time.Minute); dropped == "" || err != nil {
		t.Errorf("dropped %q, error %v", dropped, err)
	}
}

// TestADropThatIsRolledBackChangesNothing: the process may be killed before the commit.
func TestADropThatIsRolledBackChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.oldPartition("status = 'failed', failed_at = now()", "status = 'published', published_at = now() - interval '190 hours'")
	before := f.statuses("outbox_status")
	killed := errors.New("killed")
	err := f.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		var dropped string
		if err := tx.Gorm(t.Context()).Raw("SELECT outbox_drop_partition('7 days')").Scan(&dropped).Error; err != nil || dropped == "" {
			t.Errorf("dropped %q, error %v", dropped, err)
		}
		return killed
	})
	if after := f.statuses("outbox_status"); !errors.Is(err, killed) || !slices.Equal(after, before) {
		t.Errorf("error %v, the events are %v, want %v", err, after, before)
	}
}

// TestAPartitionWithTooManyFailedEventsIsPrunedInPages: it cannot be dropped, but its published
// events must still be deleted after the retention.
func TestAPartitionWithTooManyFailedEventsIsPrunedInPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.createPartition(9*day, 8*day+time.Hour)
	const failed = 10_001
	f.publishedDaysAgo(9, failed)
	f.exec("UPDATE outbox_status SET status = 'failed', failed_at = published_at, published_at = NULL")
	f.publishedDaysAgo(9, 1000)
	f.wantDropped("")
	f.runJanitorUntil("SELECT count(*) FROM outbox_status WHERE status = 'published'", aWeek)
	var left int
	if f.read(&left, "SELECT count(*) FROM outbox_status WHERE status = 'failed'"); left != failed {
		t.Errorf("%d failed events are left, want %d", left, failed)
	}
}

// TestPartitionsAreMadeTwoWidthsAhead of now, without a gap.
func TestPartitionsAreMadeTwoWidthsAhead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.makePartitions()
	var gaps, ahead int
	f.read(&gaps, `SELECT count(*) FROM (SELECT since - lag(until) OVER (ORDER BY since) AS gap FROM outbox_partitions) p WHERE gap <> interval '0'`)
	f.read(&ahead, "SELECT count(*) FROM outbox_partitions WHERE until > now() AND since < now() + interval '2 hours'")
	if gaps != 0 || ahead != 2 && ahead != 3 {
		t.Errorf("%d gaps, %d partitions ahead, want none, and 2 or 3", gaps, ahead)
	}
}

// makePartitions makes all missing partitions, of an hour each.
func (f fixture) makePartitions() {
	f.Helper()
	for made := "some"; made != ""; {
		var err error
		if made, err = f.store.MakePartition(f.Context(), time.Hour); err != nil {
			f.Fatal(err)
		}
	}
}

// TestP11NoClockIsTooFarAheadForAPartition: when the partition is made, its events are already in
// the default partition, and move.
func TestP11NoClockIsTooFarAheadForAPartition(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for clock := -10 * time.Hour; clock <= 10*time.Hour; clock += time.Hour {
		f.appendAt(clock)
	}
	before := f.statuses("outbox_status")
	f.makePartitions()
	if after := f.statuses("outbox_status"); !slices.Equal(after, before) {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	var moved int
	if f.read(&moved, "SELECT count(*) FROM outbox_events WHERE tableoid <> 'outbox_events_default'::regclass"); moved != 2 && moved != 3 {
		t.Errorf("%d events are in partitions, want 2 or 3, of the next hours", moved)
	}
	f.publishAllDue(21)
}

// publishAllDue publishes all due events, and checks how many they are.
func (f fixture) publishAllDue(want int) {
	f.Helper()
	got := 0
	for c := f.claim(100); len(c.Events) > 0; c = f.claim(100) {
		got += len(c.Events)
		must(f.T, f.store.MarkPublished(f.Context(), c.Token, idsOf(c)))
	}
	if got != want {
		f.Errorf("%d events were published, want %d", got, want)
	}
}

// TestALargeDefaultPartitionOnlyPreventsNewPartitions, until the owner of the tables calls
// outbox_empty_default(). Everything else works meanwhile.
func TestALargeDefaultPartitionOnlyPreventsNewPartitions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec("CREATE OR REPLACE FUNCTION outbox_default_is_large() RETURNS boolean LANGUAGE sql AS 'SELECT EXISTS (SELECT FROM outbox_events_default)'")
	f.publishedDaysAgo(1, 100)
	f.appendAt(5 * time.Hour) // from a clock that is five hours fast
	if made, err := f.store.MakePartition(t.Context(), time.Hour); made != "" || !errors.Is(err, outbox.ErrLargeDefault) {
		t.Errorf("made %q, error %v, want ErrLargeDefault", made, err)
	}
	before := f.statuses("outbox_status")
	f.exec("SELECT outbox_empty_default()")
	if after := f.statuses("outbox_status"); !slices.Equal(after, before) {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	var left int
	if f.read(&left, "SELECT count(*) FROM outbox_events_default"); left != 1 {
		t.Errorf("%d events are in the default partition, want 1, the future one", left)
	}
	f.exec("CREATE OR REPLACE FUNCTION outbox_default_is_large() RETURNS boolean LANGUAGE sql AS 'SELECT false'")
	f.makePartitions()
	f.publishAllDue(1)
}

// TestALongReadOfTheLogDelaysOnlyTheJanitor: new orders do not wait behind the janitor's locks.
func TestALongReadOfTheLogDelaysOnlyTheJanitor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.oldPartition("status = 'published', published_at = now() - interval '190 hours'")
	err := f.db.InSnapshot(t.Context(), func(tx *postgres.Tx) error {
		var n int
		must(t, tx.Gorm(t.Context()).Raw("SELECT count(*) FROM outbox_status").Scan(&n).Error)
		for name, turn := range map[string]func(context.Context, time.Duration) (string, error){
			"make": f.store.MakePartition, "drop": f.store.DropPartition,
		} {
			if done, err := turn(t.Context(), aWeek); done != "" || err == nil || !strings.Contains(err.Error(), lockBusy) {
				t.Errorf("%s: %q, error %v, want that a lock is not free", name, done, err)
			}
		}
		f.appendMany(1)
		return nil
	})
	must(t, err)
	f.wantDropped("outbox_events_old")
	f.makePartitions()
}
