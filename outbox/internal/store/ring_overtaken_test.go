package store

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// letPass makes events fail that do not hold their aggregate back.
func (f fixture) letPass(ids ...uuid.UUID) {
	f.Helper()
	f.fail(ids...)
	f.exec("UPDATE outbox_queue SET aggregate = NULL, aggregate_id = NULL, version = NULL WHERE id = ANY ($1)", ids)
}

// TestP7AnOvertakenEventIsEndedBeforeTheLogForgetsTheNewerOne: later nobody could tell that it must not
// be replayed. A failed event that nothing has overtaken stays, however long.
func TestP7AnOvertakenEventIsEndedBeforeTheLogForgetsTheNewerOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	overtaken, alone := f.appendMany(1)[0], f.appendMany(1)[0]
	f.letPass(overtaken, alone)
	newer := uuid.New()
	f.exec(`INSERT INTO outbox_events (id, slot, version, aggregate, aggregate_id, topic, payload, content_type)
		SELECT $1, slot, version + 1, aggregate, aggregate_id, topic, payload, content_type FROM outbox_events WHERE id = $2`, newer, overtaken)
	f.exec("INSERT INTO outbox_published (id, slot, published_at) SELECT id, slot, now() - interval '2 years' FROM outbox_events WHERE id = $1", newer)
	for _, slot := range []int{1, 2, 3, 4, 5, 6, 7, 0, 1} {
		f.rotateTo(slot, time.Hour)
	}
	f.wantGone(newer)
	status := func(id uuid.UUID) string {
		return read[string](f, "SELECT status FROM outbox_status WHERE id = $1", id)[0]
	}
	if got := status(overtaken); got != "overtaken" {
		t.Errorf("the overtaken one is %s", got)
	}
	if got := status(alone); got != "failed" {
		t.Errorf("the other one is %s", got)
	}
}
