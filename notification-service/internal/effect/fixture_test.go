package effect_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/notification-service/internal/effect"
	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a handler, with a database of the test's own.
type fixture struct {
	*testing.T
	pool     *pgxpool.Pool
	handler  *effect.Handler
	registry *prometheus.Registry
	woken    *int
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db, _ := postgrestest.Migrated(t, migrations.Schema)
	return fixture{T: t, pool: db.Pool()}.replica()
}

// replica is another process with the same database.
func (f fixture) replica() fixture {
	f.registry, f.woken = prometheus.NewRegistry(), new(int)
	woken := f.woken
	f.handler = effect.NewHandler(f.pool, effect.Config{
		Consumer: "notification-service", InboxRetention: 1 << 55, DefaultRecipient: "guest@Shop.test", Wake: func() { *woken++ },
	}, effect.NewMetrics(f.registry))
	return f
}

// handle handles a batch, which must succeed.
func (f fixture) handle(batch ...rabbitmq.Message) {
	f.Helper()
	check.Must(f, f.handler.Handle(f.Context(), batch))
}

// event is a message about an order.
func event(order uuid.UUID, version int) rabbitmq.Message {
	return eventFor(order, version, "ada@Example.com")
}

func eventFor(order uuid.UUID, version int, address string) rabbitmq.Message {
	return rabbitmq.Message{ID: uuid.NewString(), Type: email.OrderCreated, Body: fmt.Appendf(nil,
		`{"order_id":"%s","order_version":%d,"customer_email":"%s","product_id":"sku123","quantity":1,"amount":2999,"currency":"GBP","occurred_at":"2026-01-02T03:04:05Z"}`,
		order, version, address)}
}

// wantEmails wants e-mails in the outbox with these versions of the order, in their sequence.
func (f fixture) wantEmails(order uuid.UUID, versions ...int) {
	f.Helper()
	got := query[[]int](f, "SELECT coalesce(array_agg(version ORDER BY seq), '{}') FROM outbox_status WHERE aggregate_id = $1", order.String())
	if !slices.Equal(got, versions) {
		f.Errorf("e-mails of the versions %v, want %v", got, versions)
	}
}

// wantRecorded wants these messages in the inbox, and no others.
func (f fixture) wantRecorded(batch ...rabbitmq.Message) {
	f.Helper()
	var want []string
	for _, m := range batch {
		want = append(want, m.ID)
	}
	slices.Sort(want)
	if got := query[[]string](f, "SELECT coalesce(array_agg(message_id ORDER BY message_id), '{}') FROM processed_messages"); !slices.Equal(got, want) {
		f.Errorf("recorded %v, want %v", got, want)
	}
}

// wantCounted wants these values of the metrics.
func (f fixture) wantCounted(emails, superseded, duplicates float64) {
	f.Helper()
	families, err := f.registry.Gather()
	check.Must(f, err)
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"notifications_total email": emails, "notifications_total superseded": superseded,
		"consumer_duplicates_total": duplicates, "order_to_notification_seconds": emails,
	} {
		if got[name] != want {
			f.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

func query[T any](f fixture, sql string, args ...any) (value T) {
	f.Helper()
	check.Must(f, f.pool.QueryRow(context.WithoutCancel(f.Context()), sql, args...).Scan(&value))
	return value
}
