package notification

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/test/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeMailer keeps the e-mails, and answers as the test says.
type fakeMailer struct {
	mailer.Log
	mu     sync.Mutex
	sent   []mailer.Email
	answer func(ctx context.Context) error
}

func (p *fakeMailer) Send(ctx context.Context, m mailer.Email) error {
	if p.answer != nil {
		if err := p.answer(ctx); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, m)
	return nil
}

// sendAndMark does what the consumer does.
func (s *Service) sendAndMark(ctx context.Context, n Notification) error {
	if err := s.Send(ctx, n); err != nil {
		return err
	}
	return s.MarkSent(ctx, n)
}

// fixture is a running service in a database of the test's own.
type fixture struct {
	*testing.T
	db      *postgres.DB // not the pool of the service
	url     string
	service *Service
	mailer  *fakeMailer
	renewal time.Duration
}

var testConfig = Config{From: "shop@example.com", DefaultRecipient: "guest@example.com", Retention: 24 * time.Hour}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db, url := postgrestest.Migrated(t, migrations.Schema)
	return fixture{T: t, db: db, url: url, renewal: leaseRenewal}.otherProcess(db)
}

// otherProcess is a fixture of another process on the same database.
func (d fixture) otherProcess(db *postgres.DB) fixture {
	d.Helper()
	d.mailer = &fakeMailer{}
	d.service = NewService(testConfig, db, d.mailer, NewMetrics(prometheus.NewRegistry()))
	d.service.renewal = d.renewal
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.service.Run(d.Context()); err != nil {
			d.Error(err)
		}
	})
	d.Cleanup(running.Wait)
	return d
}

// behindProxy is a fixture of another process, which has a proxy between it and the database.
func (d fixture) behindProxy() (fixture, *servers.Proxy) {
	d.Helper()
	u, err := url.Parse(d.url)
	if err != nil {
		d.Fatal(err)
	}
	proxy := servers.NewProxy(d, u.Host)
	u.Host = proxy.Addr()
	db, err := postgres.Open(d.Context(), u.String(), 4)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(db.Close)
	return d.otherProcess(db), proxy
}

// record records requests in one transaction, as the consumer does.
func (d fixture) record(requests ...Request) (recorded []Notification) {
	d.Helper()
	err := d.service.db.InTx(d.Context(), func(tx pgx.Tx) (err error) {
		recorded, err = d.service.Record(d.Context(), tx, requests)
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
	for _, n := range recorded {
		d.service.AfterCommit(n)
	}
	return recorded
}

func firstRequest(order uuid.UUID, version int) Request {
	return Request{ID: uuid.New(), Event: newEvent(order, version), First: true}
}

func repeated(r Request) Request {
	r.First = false
	return r
}

func newEvent(order uuid.UUID, version int) Event {
	return Event{Key: OrderCreated, OrderID: order, OrderVersion: version, ProductID: "sku123", Quantity: 2, Amount: 5998, Currency: "GBP"}
}

// want records one request and checks the state that it finds.
func (d fixture) want(r Request, status Status, hasLease bool) Notification {
	d.Helper()
	n := d.record(r)[0]
	if n.Status != status || n.HasLease != hasLease {
		d.Errorf("it is %s, has the lease: %t; want %s, %t", n.Status, n.HasLease, status, hasLease)
	}
	return n
}

// leased is a new notification that may be sent.
func (d fixture) leased() Notification {
	d.Helper()
	return d.want(firstRequest(uuid.New(), 1), Sending, true)
}

func (d fixture) wantStatus(id uuid.UUID, want Status) {
	d.Helper()
	if got := scan[Status](d, "SELECT status FROM notifications WHERE message_id = $1", id); got != want {
		d.Errorf("the database has it as %q, want %q", got, want)
	}
}

func scan[T any](d fixture, query string, args ...any) (value T) {
	d.Helper()
	err := d.db.InSnapshot(d.Context(), func(tx pgx.Tx) error {
		return tx.QueryRow(d.Context(), query, args...).Scan(&value)
	})
	if err != nil {
		d.Fatal(err)
	}
	return value
}

// plan returns how the server would execute a query.
func (d fixture) plan(query string, args pgx.NamedArgs) string {
	d.Helper()
	var lines []string
	err := d.db.InSnapshot(d.Context(), func(tx pgx.Tx) (err error) {
		rows, _ := tx.Query(d.Context(), "EXPLAIN "+query, args) // CollectRows returns its error
		lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func (d fixture) exec(statement string, args ...any) {
	d.Helper()
	err := d.db.InTx(d.Context(), func(tx pgx.Tx) error { _, err := tx.Exec(d.Context(), statement, args...); return err })
	if err != nil {
		d.Fatal(err)
	}
}

// testTimeout bounds every wait.
const testTimeout = 30 * time.Second

func (d fixture) eventually(what string, holds func() bool) {
	d.Helper()
	for deadline := time.Now().Add(testTimeout); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.Fatalf("never: %s", what)
		}
	}
}
