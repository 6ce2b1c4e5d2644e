package browser

import (
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/test/chaos/mailserver"
	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
	"example.com/transactional-outbox/test/servicelog"
)

// limit bounds each wait. It limits only how long a failing test takes.
const limit = 2 * time.Minute

const orderService, notificationService = "order-service", "notification-service"

// site is the system of one test.
type site struct {
	*testing.T
	name, broker          string // of the virtual host, and its URL as guest
	mail                  *mailserver.Server
	orders, notifications *service
}

// service is a running service.
type service struct {
	page string        // the URL of its page
	db   *pgxpool.Pool // its database, as the superuser
	log  string
	*process.Process
}

// newSite starts order-service with settings "NAME=value". Nothing is bound to its topics.
func newSite(t *testing.T, settings ...string) *site {
	t.Helper()
	name, err := shared.Broker.NewVhost(t.Context(), repository)
	must(t, err)
	s := &site{T: t, name: name, broker: shared.Broker.URL(name)}
	s.mail, err = mailserver.Open()
	must(t, err)
	t.Cleanup(s.mail.Close)
	s.orders = s.start(orderService, servicelog.ConnectedToBroker, settings...)
	return s
}

// startNotifications starts the other service, whose queue takes all events.
func (s *site) startNotifications() {
	s.Helper()
	s.notifications = s.start(notificationService, servicelog.TakingMessages, "SMTP_URL=smtp://"+s.mail.Address())
}

// start prepares the database of a service, and starts it as a user would: with the role of the
// application and its own user of the broker. It returns when the service has logged a message.
func (s *site) start(name, message string, settings ...string) *service {
	s.Helper()
	role, ops := strings.ReplaceAll(name, "-", "_"), servers.FreeAddress(s.T)
	database := s.name + "_" + role
	roles, err := shared.Database.CreateFor(s.Context(), repository, database, role)
	must(s.T, err)
	db, err := pgxpool.New(s.Context(), shared.Database.URL(database))
	must(s.T, err)
	s.Cleanup(db.Close)
	environment := func(database string) []string {
		return slices.Concat([]string{
			"APP_ENV=demo", "DATABASE_URL=" + database, "AMQP_URL=" + servers.BrokerURLFor(name, s.broker),
			"HTTP_ADDR=127.0.0.1:0", "OPS_ADDR=" + ops,
		}, settings)
	}
	program := filepath.Join(shared.Folder, name)
	migrate := exec.CommandContext(s.Context(), program, "migrate")
	migrate.Env = environment(roles.Owner)
	if output, err := migrate.CombinedOutput(); err != nil {
		s.Fatalf("%s migrate: %v\n%s", name, err, output)
	}
	serve := exec.Command(program, "serve")
	serve.Env = environment(roles.Application)
	v := &service{page: "http://" + ops + "/", db: db, log: filepath.Join(s.TempDir(), name+".log")}
	v.Process, err = process.Start(serve, process.WithParent, v.log)
	must(s.T, err)
	s.Cleanup(func() { s.stop(v) })
	s.awaitLog(v, message)
	return v
}

// stop wants a clean end.
func (s *site) stop(v *service) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := v.End(ctx, syscall.SIGTERM); err != nil {
		s.Error(err)
	}
	if s.Failed() {
		s.Logf("%s:\n%s", v.log, process.LastLines(v.log))
	}
}

func (s *site) awaitLog(v *service, message string) servicelog.Line {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	l, err := servicelog.Await(ctx, v.Process, v.log, message)
	must(s.T, err)
	return l
}

// order places an order for each customer.
func (s *site) order(customers ...string) {
	s.Helper()
	address := "http://" + s.awaitLog(s.orders, servicelog.TakingOrders).Address + "/orders"
	for _, customer := range customers {
		body, err := json.Marshal(map[string]any{"product_id": "sku123", "quantity": 1, "customer_email": customer})
		must(s.T, err)
		response, err := http.Post(address, "application/json", strings.NewReader(string(body))) //nolint:noctx // the service ends with the test
		must(s.T, err)
		if must(s.T, response.Body.Close()); response.StatusCode != http.StatusCreated {
			s.Fatalf("POST /orders: %s", response.Status)
		}
	}
}

// fail adds n events that have failed, each of another order, and returns the id of one.
func (s *site) fail(v *service, n int, topic, reason string) (id string) {
	s.Helper()
	events := make([]outbox.Event, n)
	for i := range events {
		events[i] = outbox.Event{
			ID: uuid.Must(uuid.NewV7()), Topic: topic, Aggregate: "order", AggregateID: uuid.NewString(), Version: 1,
			Payload: []byte(`{"customer_email": "ann@example.com"}`),
		}
	}
	must(s.T, pgx.BeginFunc(s.Context(), v.db, func(tx pgx.Tx) error {
		if err := outbox.Append(s.Context(), tx, events...); err != nil {
			return err
		}
		_, err := tx.Exec(s.Context(), `UPDATE outbox_queue SET failed_at = now(), available_at = 'infinity',
			retry_count = 11, failure_code = 'refused', failure_reason = $1 WHERE failed_at IS NULL`, reason)
		return err
	}))
	return events[0].ID.String()
}

// holdPause makes the pause of a topic an hour long, when none of its events is being tried. So
// what an operator does ends it, and not the relay, which would try again after some seconds.
func (s *site) holdPause(v *service) {
	s.Helper()
	s.await("a paused topic of which no event is being tried", func() bool {
		held, err := v.db.Exec(s.Context(), `LOCK TABLE outbox_topics;
			UPDATE outbox_topics SET until = now() + interval '1 hour' WHERE NOT EXISTS (SELECT FROM outbox_claims)`)
		must(s.T, err)
		return held.RowsAffected() == 1
	})
}

// await waits until a condition holds.
func (s *site) await(what string, holds func() bool) {
	s.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(limit); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			s.Fatalf("not within %s: %s", limit, what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
