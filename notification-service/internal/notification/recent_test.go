package notification

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

func TestRecentNotificationsAreCountedByState(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	insert := `INSERT INTO notifications (message_id, order_id, order_version, event_key, recipient, order_details,
	                                     status, created_at, sent_at, lease_token, lease_until)
	  SELECT gen_random_uuid(), gen_random_uuid(), 1, 'order.created', 'a@example.com', '{}', status,
	         now() - age * interval '1 second', CASE WHEN status = 'sent' THEN now() - age * interval '1 second' END,
	         CASE WHEN status = 'sending' THEN gen_random_uuid() END, CASE WHEN status = 'sending' THEN now() END
	  FROM (VALUES ('sent', 1), ('sent', 100), ('sent', 4000), ('rejected', 2), ('superseded', 3),
	               ('pending', 50), ('sending', 4)) AS v (status, age)`
	if err := d.db.InTx(t.Context(), func(tx pgx.Tx) error { return postgres.Write(t.Context(), tx, "", insert, nil) }); err != nil {
		t.Fatal(err)
	}
	got, err := CountRecent(t.Context(), d.db, time.Hour, 100)
	if err != nil || got.OldestWaiting < 50 || got.OldestWaiting > 1000 {
		t.Errorf("the oldest waits for %v s, error %v", got.OldestWaiting, err)
	}
	got.OldestWaiting = 0
	if want := (Recent{Waiting: 2, Sent: 2, Rejected: 1, Superseded: 1, SentLately: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	newest, err := CountRecent(t.Context(), d.db, time.Hour, 1)
	if err != nil || newest != (Recent{Sent: 1, SentLately: 1}) {
		t.Errorf("the newest one: %+v, error %v", newest, err)
	}
}
