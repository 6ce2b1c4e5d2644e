package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
	"example.com/transactional-outbox/test/servicelog"
)

// limit bounds each wait. It limits only how long a failing test takes.
const limit = time.Minute

const orderService, notificationService = "order-service", "notification-service"

// site is both services, for one test. order-service has the page.
type site struct {
	*testing.T
	orders *service
	broker string // the URL of the test's virtual host, as guest
}

// service is a running service.
type service struct {
	page string        // the base URL of its page
	db   *pgxpool.Pool // its database, as the superuser
	log  string
	*process.Process
}

// newSite starts both services with settings "NAME=value".
func newSite(t *testing.T, settings ...string) *site {
	t.Helper()
	name, err := shared.Broker.NewVhost(t.Context(), repository)
	s := &site{T: t, broker: shared.Broker.URL(name)}
	s.must(err)
	s.orders = s.start(orderService, name, settings)
	s.awaitLog(s.orders, servicelog.ConnectedToBroker)
	s.awaitLog(s.start(notificationService, name, nil), servicelog.TakingMessages) // or no queue takes the events
	return s
}

func (s *site) must(err error) {
	s.Helper()
	must(s.T, err)
}

// start prepares the database of a service, and starts it as a user would: with the role of the
// application and its own user of the broker.
func (s *site) start(name, test string, settings []string) *service {
	s.Helper()
	role, ops := strings.ReplaceAll(name, "-", "_"), servers.FreeAddress(s.T)
	database := test + "_" + role
	roles, err := shared.Database.CreateFor(s.Context(), repository, database, role)
	s.must(err)
	db, err := pgxpool.New(s.Context(), shared.Database.URL(database))
	s.must(err)
	s.Cleanup(db.Close)
	environment := func(database string) []string {
		return slices.Concat([]string{
			"APP_ENV=demo", "DATABASE_URL=" + database,
			"AMQP_URL=" + servers.BrokerURLFor(name, s.broker),
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
	v := &service{page: "http://" + ops, db: db, log: filepath.Join(s.TempDir(), name+".log")}
	v.Process, err = process.Start(serve, process.WithParent, v.log)
	s.must(err)
	s.Cleanup(func() { s.stop(v) })
	return v
}

// stop wants a clean end: browsers that still watch do not prevent it.
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
	s.must(err)
	return l
}

// place places an order, and returns its id.
func (s *site) place() string {
	s.Helper()
	return s.placeFor("sku123", "ada@example.com")
}

func (s *site) placeFor(product, email string) string {
	s.Helper()
	body, err := json.Marshal(map[string]any{"product_id": product, "quantity": 1, "customer_email": email})
	s.must(err)
	address := "http://" + s.awaitLog(s.orders, servicelog.TakingOrders).Address + "/orders"
	request, err := http.NewRequestWithContext(s.Context(), http.MethodPost, address, bytes.NewReader(body))
	s.must(err)
	request.Header.Set("Content-Type", "application/json")
	status, text := s.send(request)
	if status != http.StatusCreated {
		s.Fatalf("POST /orders: %d %s", status, text)
	}
	var answer struct{ Order struct{ ID string } }
	s.must(json.Unmarshal([]byte(text), &answer))
	return answer.Order.ID
}

// send sends a request without the browser.
func (s *site) send(r *http.Request) (status int, text string) {
	s.Helper()
	response, err := http.DefaultClient.Do(r)
	s.must(err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	s.must(err)
	return response.StatusCode, string(body)
}

// metric returns the value of a metric without labels.
func (s *site) metric(v *service, name string) float64 {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, v.page+"/metrics", nil)
	s.must(err)
	_, text := s.send(r)
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			s.must(err)
			return number
		}
	}
	s.Fatalf("there is no metric %s", name)
	return 0
}

// awaitMetric waits until a metric has this value.
func (s *site) awaitMetric(v *service, name string, want float64) {
	s.Helper()
	var got float64
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); <-ticker.C {
		if got = s.metric(v, name); got == want {
			return
		}
	}
	s.Fatalf("%s is %v, want %v", name, got, want)
}

// node is the selector of the number of a node in the diagram.
func node(name string) string { return fmt.Sprintf("[data-node=%q] [data-count]", name) }
