package notification

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// sendAndAge records and sends the notification of an event, and makes it that old.
func (d fixture) sendAndAge(age time.Duration, order uuid.UUID, version int) uuid.UUID {
	d.Helper()
	n := d.want(firstRequest(order, version), Sending, true)
	if err := d.service.sendAndMark(d.Context(), n); err != nil {
		d.Fatal(err)
	}
	d.makeOlder(age, n.MessageID)
	return n.MessageID
}

func (d fixture) makeOlder(age time.Duration, id uuid.UUID) {
	d.Helper()
	d.exec("UPDATE notifications SET created_at = created_at - $1 * interval '1 second' WHERE message_id = $2", age.Seconds(), id)
}

func (d fixture) wantPruned(limit, want int) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), testTimeout)
	defer cancel()
	if n, err := d.service.Prune(ctx, limit); n != want || err != nil {
		d.Errorf("pruned %d, want %d; error %v", n, want, err)
	}
}

func TestPruneTakesWhatIsOlderThanItsRetention(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	for range 5 {
		d.sendAndAge(testConfig.Retention+pruneMargin+time.Minute, uuid.New(), 1)
	}
	young := d.sendAndAge(testConfig.Retention+pruneMargin-time.Minute, uuid.New(), 1)
	for _, want := range []int{2, 2, 1, 0} {
		d.wantPruned(2, want)
	}
	d.wantStatus(young, Sent)
	if n := scan[int](d, "SELECT count(*) FROM order_progress"); n != 1 {
		t.Errorf("the progress of %d orders is left, want 1", n)
	}
}

func TestProgressGoesWithItsOrdersLastNotification(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	order := uuid.New()
	const old = 2 * 24 * time.Hour
	d.sendAndAge(old, order, 1)
	last := d.sendAndAge(0, order, 2)
	d.wantPruned(10, 1)
	if v := scan[int](d, "SELECT last_version FROM order_progress"); v != 2 {
		t.Errorf("the order's progress is %d, want 2", v)
	}
	d.makeOlder(old, last)
	d.wantPruned(10, 1)
	if n := scan[int](d, "SELECT count(*) FROM order_progress"); n != 0 {
		t.Error("the progress of an order without a notification is kept")
	}
}

func TestWhatIsBeingSentIsNotPruned(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	n := d.leased()
	d.makeOlder(100*24*time.Hour, n.MessageID)
	d.wantPruned(10, 0)
	d.exec("UPDATE notifications SET lease_until = now()") // its process is dead
	d.wantPruned(10, 1)
}

// TestProgressThatIsBeingRaisedIsNotPruned: the new notification is not visible yet when the
// old one is deleted.
func TestProgressThatIsBeingRaisedIsNotPruned(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	order := uuid.New()
	d.sendAndAge(2*24*time.Hour, order, 1)
	pruned := make(chan struct{})
	err := d.db.InTx(t.Context(), func(tx pgx.Tx) error {
		_, err := d.service.Record(t.Context(), tx, []Request{firstRequest(order, 2)})
		go func() {
			defer close(pruned)
			d.wantPruned(10, 1)
		}()
		d.eventually("pruning waits", func() bool {
			return scan[int](d, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	<-pruned
	if v := scan[int](d, "SELECT last_version FROM order_progress"); v != 2 {
		t.Errorf("the order's progress is %d, want 2", v)
	}
}

func TestPruneReadsTheOldEndOfItsIndex(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.exec(`INSERT INTO notifications (message_id, order_id, order_version, event_key, recipient, order_details, created_at)
		SELECT gen_random_uuid(), gen_random_uuid(), 1, 'order.created', 'a@b', '{}', now() - n * interval '1 minute'
		FROM generate_series(1, 20000) n`)
	d.exec("ANALYZE notifications")
	plan := d.plan(pruneSQL, pgx.NamedArgs{"age": 3600, "limit": 100})
	if !strings.Contains(plan, "notifications_age") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Sort") {
		t.Errorf("the plan is\n%s", plan)
	}
}
