package notification

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func TestTheHistoryOfAnOrderHasAllItsMessages(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	history, order := NewHistory(d.db), uuid.New()
	newest := d.record(firstRequest(order, 3))[0]
	older := d.record(firstRequest(order, 1))[0]
	rejected := d.record(firstRequest(order, 4))[0]
	d.record(firstRequest(uuid.New(), 1))
	if err := errors.Join(d.service.sendAndMark(t.Context(), newest), d.service.Reject(t.Context(), rejected.MessageID, "unknown user")); err != nil {
		t.Fatal(err)
	}

	found, err := history.OfOrder(t.Context(), order)
	if err != nil || len(found) != 3 {
		t.Fatalf("%+v, error %v", found, err)
	}
	for i, want := range []struct {
		id       uuid.UUID
		status   Status
		attempts int
		reason   string
	}{{older.MessageID, Superseded, 0, ""}, {newest.MessageID, Sent, 1, ""}, {rejected.MessageID, Rejected, 1, "unknown user"}} {
		got := found[i]
		if got.MessageID != want.id || got.Status != want.status || got.Attempts != want.attempts || got.LastVersion != 4 ||
			(got.SentAt != nil) != (want.status == Sent) || (got.FailureReason != nil) != (want.reason != "") ||
			got.FailureReason != nil && *got.FailureReason != want.reason {
			t.Errorf("%d: %+v, want %+v", i, got, want)
		}
		if got.EventKey != OrderCreated || got.Recipient == "" || time.Since(got.CreatedAt).Abs() > time.Hour || got.InboxSince != nil {
			t.Errorf("%d: %+v", i, got)
		}
	}
	for _, id := range []uuid.UUID{order, older.MessageID, rejected.MessageID} {
		if found, err := history.OrderOf(t.Context(), id); err != nil || found != order {
			t.Errorf("the order of %s is %s, error %v", id, found, err)
		}
	}
	if found, err := history.OrderOf(t.Context(), uuid.New()); err != nil || found != uuid.Nil {
		t.Errorf("an unknown id is of the order %s, error %v", found, err)
	}
}

// TestTheHistoryShowsALease, also one that has ended because its process died.
func TestTheHistoryShowsALease(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	history, order := NewHistory(d.db), uuid.New()
	d.record(firstRequest(order, 1))
	for _, ended := range []bool{false, true} {
		found, err := history.OfOrder(t.Context(), order)
		if err != nil || len(found) != 1 || found[0].Status != Sending || found[0].LeaseUntil == nil || found[0].LeaseEnded != ended {
			t.Fatalf("%+v, error %v, want ended: %t", found, err, ended)
		}
		d.exec("UPDATE notifications SET lease_until = now() - interval '1 hour'")
	}
}

// TestTheHistoryReadsIndexesOnly however many notifications there are.
func TestTheHistoryReadsIndexesOnly(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.exec(`INSERT INTO notifications (message_id, order_id, order_version, event_key, recipient, order_details)
		SELECT gen_random_uuid(), gen_random_uuid(), 1, 'order.created', 'x', '{}' FROM generate_series(1, 20000)`)
	d.exec("INSERT INTO processed_messages SELECT message_id FROM notifications")
	d.exec("INSERT INTO order_progress SELECT order_id, 1 FROM notifications")
	d.exec("ANALYZE")
	id := uuid.NewString()
	for _, query := range []string{ofOrderSQL, orderOfSQL} {
		plan := d.plan(query, pgx.NamedArgs{"order": id, "id": id, "limit": 100})
		if strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "notifications_order") {
			t.Errorf("%s has the plan\n%s", query, plan)
		}
	}
}
