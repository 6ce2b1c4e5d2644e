package main

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	notificationmigrations "example.com/transactional-outbox/notification-service/migrations"
	ordermigrations "example.com/transactional-outbox/order-service/migrations"
)

const (
	mine   = "01990000-0000-7000-8000-000000000001"
	theirs = "01990000-0000-7000-8000-000000000002"
	event  = "01990000-0000-7000-8000-000000000003"
)

// emails is a mailbox for tests.
type fakeMailbox map[string]int

func (m fakeMailbox) emails(context.Context) (map[string]int, error) { return m, nil }

func TestTheStateHasThisRunsOrdersOnly(t *testing.T) {
	l := migratedLab(t)
	l.placed, l.mail = []string{mine}, fakeMailbox{event: 2, "another": 1}
	const insert = `INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type) VALUES `
	const queue = `INSERT INTO outbox_queue (id, seq, slot, aggregate, aggregate_id, version, topic, bytes, retry_count)
		SELECT id, seq, slot, aggregate, aggregate_id, version, topic, 2, 3 FROM outbox_events`
	const claim = "INSERT INTO outbox_claims VALUES ('" + event + "', 'w', now() + interval '50 s', '{" + event + "}')"
	must(t, execute(t.Context(), l.orderDB,
		insert+"('"+event+"', 0, 'order', '"+mine+"', 1, 'order.created', '{}', 'application/json')",
		insert+"(gen_random_uuid(), 0, 'order', '"+theirs+"', 1, 'order.created', '{}', 'application/json')",
		queue, claim))
	must(t, execute(t.Context(), l.notificationDB, "INSERT INTO inbox_messages (consumer, message_id) VALUES ('notification-service', '"+event+"')",
		insert+"('"+event+"', 0, 'order', '"+mine+"', 1, 'b', '{}', 'application/json')",
		insert+"(gen_random_uuid(), 0, 'order', '"+theirs+"', 1, 'b', '{}', 'application/json')", queue, claim))
	got, err := l.readOrders(t.Context())
	must(t, err)
	if len(got.messages) != 1 || got.inProgress != 1 || got.waiting != 0 || got.attempts != 3 || got.recorded != 1 ||
		got.appended != 1 || got.sent != 0 || got.emails != 2 || got.repeated != 1 {
		t.Errorf("the state is %+v", got)
	}
	for _, conn := range []*pgx.Conn{l.orders, l.notifications} {
		var lease int
		must(t, conn.QueryRow(t.Context(), leaseSQL, l.placed).Scan(&lease))
		if lease < 40 || lease > 50 {
			t.Errorf("the lease ends in %d s, want 50", lease)
		}
	}
}

func TestOnlyOneExperimentRunsAtATime(t *testing.T) {
	l := migratedLab(t)
	other := &lab{settings: l.settings}
	must(t, l.connect(t.Context()))
	if err := other.connect(t.Context()); err == nil {
		t.Error("two experiments run at the same time")
	}
	must(t, other.close())
	must(t, l.close())
}

func migratedLab(t *testing.T) *lab {
	l := &lab{report: report{out: t.Output()}}
	l.orderDB, l.notificationDB = migrated(t, ordermigrations.Schema), migrated(t, notificationmigrations.Schema)
	l.orders, l.notifications = connect(t, l.orderDB), connect(t, l.notificationDB)
	return l
}

func migrated(t *testing.T, schema postgres.Migrations) string {
	_, url := postgrestest.Migrated(t, schema)
	return url
}
