package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	notificationmigrations "example.com/transactional-outbox/notification-service/migrations"
	ordermigrations "example.com/transactional-outbox/order-service/migrations"
)

const (
	orderID   = "01990000-0000-7000-8000-000000000001"
	messageID = "01990000-0000-7000-8000-000000000002"
)

// The rows of an order whose event has passed all layers.
const (
	placed   = inserted + `'2026-01-01 00:00:00.012Z')`
	emailed  = inserted + `'2026-01-01 00:00:00.018Z')`
	inserted = `WITH event AS (
	  INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type, traceparent, created_at)
	  VALUES ('` + messageID + `', 0, 'order', '` + orderID + `', 1, 'order.created', '{}', 'application/json',
	          '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', '2026-01-01 00:00:00Z'))
	INSERT INTO outbox_published (id, slot, published_at) VALUES ('` + messageID + `', 0, `
	consumed = `INSERT INTO processed_messages (consumer, message_id, processed_at)
	VALUES ('notification-service', '` + messageID + `', '2026-01-01 00:00:00.015Z')`
)

func TestShow(t *testing.T) {
	s := newStack(t)
	var out bytes.Buffer
	s.out = &out
	s.orderDB = database(t, ordermigrations.Schema, placed)
	s.notificationDB = database(t, notificationmigrations.Schema, consumed, emailed)
	must(t, s.show(shortContext(t), []string{orderID}))
	for _, want := range []string{
		"committed        0.0 ms", "trace 4bf92f3577b34da6a3ce929d0e0e4736",
		"published       12.0 ms", "topic order.created, message " + messageID,
		"consumed        15.0 ms",
		"e-mailed        18.0 ms", "sent",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestShowOfUnknownOrders(t *testing.T) {
	s := newStack(t)
	if err := s.show(shortContext(t), []string{orderID}); err == nil || !strings.Contains(err.Error(), "up") {
		t.Errorf("before up: %v", err)
	}
	s.orderDB = database(t, ordermigrations.Schema)
	s.notificationDB = database(t, notificationmigrations.Schema)
	for _, id := range []string{orderID, "sku123"} {
		if err := s.show(shortContext(t), []string{id}); err == nil {
			t.Errorf("order %s was shown", id)
		}
	}
}

func TestExplainSaysWhereAnEventIs(t *testing.T) {
	now := time.Now()
	for want, e := range map[string]event{
		"":                       {published: &now, consumed: &now, sent: &now, emailStatus: "published"},
		"not published within":   {outboxStatus: "pending"},
		"not consumed within":    {published: &now},
		"not e-mailed within":    {published: &now, consumed: &now, emailStatus: "pending"},
		"status is failed: nack": {outboxStatus: "failed", failure: "nack"},
		"status is failed: 550":  {published: &now, consumed: &now, emailStatus: "failed", failure: "550"},
		"does RabbitMQ run":      {outboxStatus: "in_progress", consumed: &now, sent: &now, emailStatus: "published"},
		"no reason is recorded":  {outboxStatus: "discarded"},
	} {
		err := explain([]event{e})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if err := explain([]event{{published: &now, consumed: &now, emailStatus: "superseded"}}); err != nil {
		t.Errorf("a superseded event is complete, but: %v", err)
	}
}

func TestTraceOf(t *testing.T) {
	for _, traceparent := range []string{"", "00", "not a traceparent"} {
		if got := traceOf(traceparent); got != "none" {
			t.Errorf("the trace of %q is %q", traceparent, got)
		}
	}
}

// database returns the URL of a database with a service's schema and these rows.
func database(t *testing.T, schema postgres.Migrations, statements ...string) string {
	db, url := postgrestest.Migrated(t, schema)
	for _, statement := range statements {
		_, err := db.Pool().Exec(shortContext(t), statement)
		must(t, err)
	}
	return url
}
