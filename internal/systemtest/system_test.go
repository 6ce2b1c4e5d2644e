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
	orders        *pgxpool.Pool // the database of order-service
	notifications *pgxpool.Pool // the database of notification-service
	ordersURL     string
	notifyURL     string
	brokerURL     string
	mail          *mailServer
}

// newSystem makes databases, a virtual host and a mail server; nothing runs yet.
func newSystem(t *testing.T) *system {
	t.Helper()
	return newSystemOn(t, database, broker)
}

func newSystemOn(t *testing.T, database *servertest.PostgresServer, broker *servertest.RabbitMQServer) *system {
	t.Helper()
	name := "t" + strings.ToLower(rand.Text())[:10]
	s := &system{T: t, database: database, broker: broker, mail: startMail(t)}
	s.orders, s.ordersURL = s.createDatabase(name + "_orders")
	s.notifications, s.notifyURL = s.createDatabase(name + "_notifications")
	for _, command := range [][]string{
		{"add_vhost", name}, {"set_permissions", "-p", name, "guest", ".*", ".*", ".*"},
	} {
		if output, err := broker.Ctl(t.Context(), command...); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, output)
		}
	}
	s.brokerURL = broker.URL(name)
	s.migrate("order-service", s.ordersURL)
	s.migrate("notification-service", s.notifyURL)
	return s
}

func (s *system) createDatabase(name string) (*pgxpool.Pool, string) {
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
	pool, err := pgxpool.New(s.Context(), url)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(pool.Close)
	return pool, url
}

func (s *system) migrate(name, url string) {
	s.Helper()
	command := exec.CommandContext(s.Context(), filepath.Join(binaries, name), "migrate")
	command.Env = []string{"APP_ENV=demo", "DATABASE_URL=" + url, "AMQP_URL=" + s.brokerURL}
	if output, err := command.CombinedOutput(); err != nil {
		s.Fatalf("%s migrate: %v\n%s", name, err, output)
	}
}

func (s *system) runOrders(settings ...string) *service {
	s.Helper()
	return s.runOrdersAs("serve", settings...)
}

// runOrdersAs starts one half of order-service, or all of it. Of a setting that is
// given twice, the last one counts.
func (s *system) runOrdersAs(command string, settings ...string) *service {
	s.Helper()
	return run(s.T, "order-service", command, append([]string{"DATABASE_URL=" + s.ordersURL, "AMQP_URL=" + s.brokerURL}, settings...)...)
}

// runNotifications starts notification-service. Of a setting that is given twice, the
// last one counts.
func (s *system) runNotifications(settings ...string) *service {
	s.Helper()
	return s.runNotificationsAs("notification-service", settings...)
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
	return run(s.T, binary, "serve", append([]string{
		"DATABASE_URL=" + s.notifyURL, "AMQP_URL=" + s.brokerURL, "SMTP_URL=" + s.mail.url, "MAIL_FROM=shop@example.com",
	}, settings...)...)
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
