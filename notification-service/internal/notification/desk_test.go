package notification

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/notification-service/migrations"
)

// postbox is a mailer that answers by script.
type postbox struct {
	Log
	mu     sync.Mutex
	sent   []Email
	answer func(ctx context.Context) error
}

func (p *postbox) Send(ctx context.Context, m Email) error {
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

// desk is a service, that runs, in a database of the test's own.
type desk struct {
	*testing.T
	db      *postgres.DB // past the service's own pool
	url     string
	service *Service
	post    *postbox
	renewal time.Duration
}

var deskConfig = Config{From: "shop@example.com", DefaultRecipient: "guest@example.com", Retention: 24 * time.Hour}

func newDesk(t *testing.T) desk {
	t.Helper()
	db, url := servertest.Migrated(t, postgres.Migrations{Files: migrations.Files})
	return desk{T: t, db: db, url: url, renewal: leaseRenewal}.process(db)
}

// process is a desk of another process on the same database.
func (d desk) process(db *postgres.DB) desk {
	d.Helper()
	d.post = &postbox{}
	d.service = NewService(deskConfig, db, d.post, NewMetrics(prometheus.NewRegistry()))
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

// behind is a desk of another process, which has a proxy between it and the database.
func (d desk) behind() (desk, *servertest.Proxy) {
	d.Helper()
	u, err := url.Parse(d.url)
	if err != nil {
		d.Fatal(err)
	}
	proxy := servertest.NewProxy(d, u.Host)
	u.Host = proxy.Addr()
	db, err := postgres.Open(d.Context(), u.String(), 4)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(db.Close)
	return d.process(db), proxy
}

// record records requests in one transaction, as the consumer does.
func (d desk) record(requests ...Request) (recorded []Notification) {
	d.Helper()
	err := d.service.db.InTx(d.Context(), func(tx *postgres.Tx) (err error) {
		recorded, err = d.service.Record(d.Context(), tx, requests)
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
	for _, n := range recorded {
		d.service.Leased(n)
	}
	return recorded
}

func first(order uuid.UUID, version int) Request {
	return Request{ID: uuid.New(), Event: anEvent(order, version), First: true}
}

func again(r Request) Request {
	r.First = false
	return r
}

func anEvent(order uuid.UUID, version int) Event {
	return Event{Key: OrderCreated, OrderID: order, OrderVersion: version, ProductID: "sku123", Quantity: 2, Amount: 5998, Currency: "GBP"}
}

// want records one request and checks the state that it finds.
func (d desk) want(r Request, status Status, mine bool) Notification {
	d.Helper()
	n := d.record(r)[0]
	if n.Status != status || n.Mine != mine {
		d.Errorf("it is %s, mine %t; want %s, %t", n.Status, n.Mine, status, mine)
	}
	return n
}

// leased is a new notification that may be sent.
func (d desk) leased() Notification {
	d.Helper()
	return d.want(first(uuid.New(), 1), Sending, true)
}

func (d desk) wantStatus(id uuid.UUID, want Status) {
	d.Helper()
	if got := scan[Status](d, "SELECT status FROM notifications WHERE message_id = ?", id); got != want {
		d.Errorf("the database has it as %q, want %q", got, want)
	}
}

func scan[T any](d desk, query string, args ...any) (value T) {
	d.Helper()
	err := d.db.InSnapshot(d.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(d.Context()).Raw(query, args...).Scan(&value).Error
	})
	if err != nil {
		d.Fatal(err)
	}
	return value
}

func (d desk) exec(statement string, args ...any) {
	d.Helper()
	err := d.db.InTx(d.Context(), func(tx *postgres.Tx) error { return tx.Gorm(d.Context()).Exec(statement, args...).Error })
	if err != nil {
		d.Fatal(err)
	}
}

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

func (d desk) eventually(what string, holds func() bool) {
	d.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.Fatalf("never: %s", what)
		}
	}
}
