package browser

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/mailserver"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
)

// site is the system of one test.
type site struct {
	*testing.T
	name                  string // of the virtual host
	mail                  *mailserver.Server
	orders, notifications *service
}

// service is a running service.
type service struct {
	page, api string        // URLs
	db        *pgxpool.Pool // its database, as the superuser
}

// newSite starts order-service with settings "NAME=value". Nothing is bound to its topics.
func newSite(t *testing.T, settings ...string) *site {
	t.Helper()
	name, err := shared.Broker.NewVhost(t.Context(), repository)
	must(t, err)
	s := &site{T: t, name: name}
	s.mail, err = mailserver.Open()
	must(t, err)
	t.Cleanup(s.mail.Close)
	s.orders = s.start(services.Orders, services.TakingOrders, settings...)
	return s
}

// startNotifications starts the other service, whose queue takes all events.
func (s *site) startNotifications() {
	s.Helper()
	s.notifications = s.start(services.Notifications, services.TakingMessages, "SMTP_URL=smtp://"+s.mail.Address())
}

// start prepares the database of a service, and starts it as a user would: with the role of the
// application and its own user of the broker. It returns when the service has logged a message.
func (s *site) start(name, message string, settings ...string) *service {
	s.Helper()
	role, ops := strings.ReplaceAll(name, "-", "_"), servers.FreeAddress(s.T)
	roles, err := shared.Database.CreateFor(s.Context(), repository, s.name+"_"+role, role)
	must(s.T, err)
	db, err := pgxpool.New(s.Context(), shared.Database.URL(s.name+"_"+role))
	must(s.T, err)
	s.Cleanup(db.Close)
	program, log := filepath.Join(shared.Folder, name), filepath.Join(s.TempDir(), name+".log")
	settings = append([]string{"OPS_ADDR=" + ops, "AMQP_URL=" + servers.BrokerURLFor(name, shared.Broker.URL(s.name))}, settings...)
	must(s.T, services.Migrate(s.Context(), program, log, roles.Owner))
	p, err := services.Start(program, "serve", log, append(settings, "DATABASE_URL="+roles.Application)...)
	must(s.T, err)
	s.Cleanup(func() {
		if _, err := p.Stop(context.Background()); err != nil {
			s.Error(err)
		}
		if s.Failed() {
			s.Logf("%s:\n%s", log, process.LastLines(log))
		}
	})
	api, err := p.Address(s.Context(), message)
	must(s.T, err)
	return &service{page: "http://" + ops + "/", api: api, db: db}
}

// order places an order for each customer.
func (s *site) order(customers ...string) {
	s.Helper()
	for _, customer := range customers {
		order := fmt.Sprintf(`{"product_id": "sku123", "quantity": 1, "customer_email": %q}`, customer)
		response, err := http.Post(s.orders.api+"/orders", "application/json", strings.NewReader(order))
		must(s.T, err)
		if must(s.T, response.Body.Close()); response.StatusCode != http.StatusCreated {
			s.Fatalf("POST /orders: %s", response.Status)
		}
	}
}

// fail adds n events of order-service that have failed. Each is of another order, which has the
// same id as the event. It returns one of the ids.
func (s *site) fail(n int, topic, reason string) (id string) {
	s.Helper()
	must(s.T, pgx.BeginFunc(s.Context(), s.orders.db, func(tx pgx.Tx) error {
		for range n {
			e := outbox.Event{ID: uuid.New(), Topic: topic, Aggregate: "order", Version: 1, Payload: []byte(`{"customer_email": "ann@example.com"}`)}
			id = e.ID.String()
			e.AggregateID = id
			must(s.T, outbox.Append(s.Context(), tx, e))
		}
		_, err := tx.Exec(s.Context(), `UPDATE outbox_queue SET failed_at = now(), available_at = 'infinity', retry_count = 11,
			failure_code = 'refused', failure_reason = $1 WHERE failed_at IS NULL`, reason)
		return err
	}))
	return id
}

// holdPause makes the pause of a topic an hour long, when none of its events is being tried. So
// what an operator does ends it, and not the relay, which would try again after some seconds.
func (s *site) holdPause(v *service) {
	s.Helper()
	check.Await(s, "a paused topic of which no event is being tried", func() bool {
		held, err := v.db.Exec(s.Context(), `LOCK TABLE outbox_topics;
			UPDATE outbox_topics SET until = now() + interval '1 hour' WHERE NOT EXISTS (SELECT FROM outbox_claims)`)
		must(s.T, err)
		return held.RowsAffected() == 1
	})
}

var must = check.Must // many lines have it
