package systemtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/internal/servertest"
)

// system is what one test has to itself.
type system struct {
	*testing.T
	database      *servertest.PostgresServer
	broker        *servertest.RabbitMQServer
	orders        *pgxpool.Pool // the database of order-service, for the test: past its roles
	notifications *pgxpool.Pool // the database of notification-service
	ordersRoles   servertest.Roles
	notifyRoles   servertest.Roles
	brokerURL     string // for the test: past the users of the services
	mail          *mailServer
}

const (
	orderService        = "order-service"
	notificationService = "notification-service"
)

// ourselves is the test, among those who are connected to a database.
const ourselves = "systemtest"

// newSystem makes databases, a virtual host and a mail server; nothing runs yet.
func newSystem(t *testing.T) *system {
	t.Helper()
	return newSystemOn(t, database, broker)
}

func newSystemOn(t *testing.T, database *servertest.PostgresServer, broker *servertest.RabbitMQServer) *system {
	t.Helper()
	name := "t" + strings.ToLower(rand.Text())[:10]
	s := &system{T: t, database: database, broker: broker, mail: startMail(t)}
	s.brokerURL = broker.URL(name)
	must(t, broker.Provision(t.Context(), repository, name))
	s.orders, s.ordersRoles = s.createDatabase(name+"_orders", "order_service")
	s.notifications, s.notifyRoles = s.createDatabase(name+"_notifications", "notification_service")
	s.migrate(orderService, s.ordersRoles)
	s.migrate(notificationService, s.notifyRoles)
	return s
}

// createDatabase makes one with the roles of a service.
func (s *system) createDatabase(name, role string) (*pgxpool.Pool, servertest.Roles) {
	s.Helper()
	admin, err := pgx.Connect(s.Context(), s.database.URL("postgres"))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = admin.Close(s.Context()) }()
	if _, err := admin.Exec(s.Context(), "CREATE DATABASE "+name); err != nil {
		s.Fatal(err)
	}
	url := s.database.URL(name)
	pool, err := pgxpool.New(s.Context(), url+"&application_name="+ourselves)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(pool.Close)
	roles, err := servertest.Provision(s.Context(), repository, url, role)
	must(s.T, err)
	return pool, roles
}

func (s *system) migrate(name string, roles servertest.Roles) {
	s.Helper()
	if output, err := s.migration(name, roles).CombinedOutput(); err != nil {
		s.Fatalf("%s migrate: %v\n%s", name, err, output)
	}
}

// migration is the command that does it, as the owner.
func (s *system) migration(name string, roles servertest.Roles) *exec.Cmd {
	command := exec.CommandContext(s.Context(), filepath.Join(binaries, name), "migrate")
	command.Env = []string{"APP_ENV=demo", "DATABASE_URL=" + roles.Owner, "AMQP_URL=" + s.brokerURL}
	return command
}

// settings are how a service gets in where it belongs: as the application's role in its
// database, and as its own user at the broker.
func (s *system) settings(name string) []string {
	database := s.ordersRoles.Application
	if name == notificationService {
		database = s.notifyRoles.Application
	}
	return []string{"DATABASE_URL=" + database, "AMQP_URL=" + servertest.As(name, s.brokerURL)}
}

func (s *system) runOrders(settings ...string) *service {
	s.Helper()
	return s.runOrdersAs("serve", settings...)
}

// runOrdersAs starts one half of order-service, or all of it. Of a setting that is
// given twice, the last one counts.
func (s *system) runOrdersAs(command string, settings ...string) *service {
	s.Helper()
	return run(s.T, orderService, command, append(s.settings(orderService), settings...)...)
}

// runNotifications starts notification-service. Of a setting that is given twice, the
// last one counts.
func (s *system) runNotifications(settings ...string) *service {
	s.Helper()
	return s.runNotificationsAs(notificationService, settings...)
}

// runCrashing starts notification-service with crash points.
func (s *system) runCrashing(settings ...string) *service {
	s.Helper()
	name, err := crashing()
	must(s.T, err)
	return s.runNotificationsAs(name, settings...)
}

func (s *system) runNotificationsAs(binary string, settings ...string) *service {
	s.Helper()
	return run(s.T, binary, "serve", slices.Concat(
		s.settings(notificationService), []string{"SMTP_URL=" + s.mail.url, "MAIL_FROM=shop@example.com"}, settings)...)
}

// address waits for the API and returns its URL.
func (s *service) address() string {
	s.Helper()
	return fmt.Sprintf("http://%s", s.await("taking orders")["address"])
}

const oneMug = `{"product_id":"sku123","quantity":1}`

// place orders and returns the order's id, or an error when that is not known.
func place(ctx context.Context, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/orders", strings.NewReader(oneMug))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	var answer struct{ Order struct{ ID string } }
	if response.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(body))
	}
	return answer.Order.ID, json.Unmarshal(body, &answer)
}

func (s *system) place(orders *service) string {
	s.Helper()
	address := orders.address()
	id, err := place(s.Context(), address)
	if err != nil {
		s.Fatal(err)
	}
	return id
}

// one runs a query that returns one value.
func one[V any](s *system, db *pgxpool.Pool, query string, args ...any) V {
	s.Helper()
	rows, err := db.Query(s.Context(), query, args...)
	if err != nil {
		s.Fatal(err)
	}
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[V])
	if err != nil {
		s.Fatal(err)
	}
	return value
}

// awaitCount waits until a query counts to n. The services' databases tell nobody
// of changes, so this asks.
func (s *system) awaitCount(db *pgxpool.Pool, n int, query string) {
	s.Helper()
	deadline := time.Now().Add(patience)
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	for {
		got := one[int](s, db, query)
		if got == n {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s counts to %d, want %d", query, got, n)
		}
		<-ask.C
	}
}

const (
	published = "SELECT count(*) FROM outbox_events WHERE status = 'published'"
	sent      = "SELECT count(*) FROM notifications WHERE status = 'sent'"
)
