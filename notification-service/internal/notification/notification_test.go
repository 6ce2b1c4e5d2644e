package notification

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/contract"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/notification-service/migrations"
)

// postbox is a mailer that answers by script.
type postbox struct {
	mu     sync.Mutex
	sent   []Email
	answer func() error
}

func (p *postbox) Send(_ context.Context, m Email) error {
	if p.answer != nil {
		if err := p.answer(); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, m)
	return nil
}

// desk is a service in a database of the test's own.
type desk struct {
	*testing.T
	db      *postgres.DB
	service *Service
	post    *postbox
}

func newDesk(t *testing.T) desk {
	t.Helper()
	db, _ := servertest.Migrated(t, postgres.Migrations{Files: migrations.Files})
	post := &postbox{}
	return desk{t, db, NewService(Config{From: "shop@example.com", DefaultRecipient: "guest@example.com"}, db, post), post}
}

// record commits to the notification of one event of an order.
func (d desk) record(order uuid.UUID, version int) uuid.UUID {
	d.Helper()
	id := uuid.New()
	e := Event{Key: OrderCreated, OrderID: order, OrderVersion: version, ProductID: "sku123", Quantity: 2, Amount: 5998, Currency: "GBP"}
	err := d.db.InTx(d.Context(), func(tx *postgres.Tx) error { return d.service.Record(d.Context(), tx, id, e) })
	if err != nil {
		d.Fatal(err)
	}
	return id
}

func (d desk) status(id uuid.UUID) (s string) {
	d.Helper()
	err := d.db.InSnapshot(d.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(d.Context()).Raw("SELECT status FROM notifications WHERE message_id = ?", id).Scan(&s).Error
	})
	if err != nil {
		d.Fatal(err)
	}
	return s
}

// want completes a notification and checks the state in which that leaves it.
func (d desk) want(id uuid.UUID, state string, err error) {
	d.Helper()
	if got := d.service.Complete(d.Context(), id); (got == nil) != (err == nil) || (err != nil && !errors.Is(got, err)) {
		d.Errorf("Complete returns %v, want %v", got, err)
	}
	if got := d.status(id); got != state {
		d.Errorf("it is %s, want %s", got, state)
	}
}

func TestP6CompletingTwiceSendsOneEmail(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.record(uuid.New(), 1)
	d.want(id, "sent", nil)
	d.want(id, "sent", nil)
	if len(d.post.sent) != 1 {
		t.Fatalf("%d e-mails, want one", len(d.post.sent))
	}
	e := d.post.sent[0]
	if e.To != "guest@example.com" || e.ID != id.String()+"@example.com" || !strings.Contains(e.Text, "GBP 59.98") {
		t.Errorf("e-mail %+v", e)
	}
}

func TestP6CompletingAtOnceSendsOneEmail(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.record(uuid.New(), 1)
	var deliveries sync.WaitGroup
	for range 8 {
		deliveries.Go(func() {
			if err := d.service.Complete(t.Context(), id); err != nil && !errors.Is(err, errBeingSent) {
				t.Error(err)
			}
		})
	}
	deliveries.Wait()
	if len(d.post.sent) != 1 {
		t.Errorf("%d e-mails, want one", len(d.post.sent))
	}
}

func TestATemporaryRefusalIsTriedAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.record(uuid.New(), 1)
	busy := errors.New("450 busy")
	d.post.answer = func() error { return busy }
	d.want(id, "pending", busy)
	d.post.answer = nil
	d.want(id, "sent", nil)
}

func TestARefusalForGoodIsRememberedAndNotTriedAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.record(uuid.New(), 1)
	refusal := &RefusedError{Reason: "550 no such user"}
	d.post.answer = func() error { return refusal }
	d.want(id, "rejected", refusal)
	d.post.answer = nil

	err := d.service.Complete(t.Context(), id)
	if again, refused := errors.AsType[*RefusedError](err); !refused || again.Reason != refusal.Reason {
		t.Errorf("the second delivery gets %v, want %v", err, refusal)
	}
	if len(d.post.sent) != 0 {
		t.Error("an e-mail went to somebody who refused it")
	}
}

func TestAnEndedLeaseIsTakenOver(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.record(uuid.New(), 1)
	if n, err := d.service.start(t.Context(), id); err != nil || !n.mine {
		t.Fatalf("started %+v, error %v", n, err)
	}
	d.want(id, "sending", errBeingSent)
	err := d.db.InTx(t.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(t.Context()).Exec("UPDATE notifications SET lease_until = now()").Error
	})
	if err != nil {
		t.Fatal(err)
	}
	d.want(id, "sent", nil)
}

func TestAnEventThatANewerOneSupersededSendsNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	order := uuid.New()
	waiting := d.record(order, 1) // recorded first, and not sent before the next one comes
	newest := d.record(order, 3)
	late := d.record(order, 2)
	other := d.record(uuid.New(), 1)
	d.want(waiting, "superseded", nil)
	d.want(late, "superseded", nil)
	d.want(newest, "sent", nil)
	d.want(other, "sent", nil)
	if len(d.post.sent) != 2 {
		t.Errorf("%d e-mails, want 2", len(d.post.sent))
	}
}

func TestParseReadsWhatTheContractSays(t *testing.T) {
	t.Parallel()
	files, err := contract.Events.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		body, err := contract.Events.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		key := strings.TrimSuffix(file.Name(), ".json")
		e, err := (*Service)(nil).Parse(rabbitmq.Message{Type: key, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		want := Event{
			Key: key, OrderID: uuid.MustParse("0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b"), OrderVersion: e.OrderVersion,
			CustomerEmail: "ada@example.com", ProductID: "sku123", Quantity: 2, Amount: 5998, Currency: "GBP",
		}
		if e != want {
			t.Errorf("%s: %+v, want %+v", key, e, want)
		}
	}
}

func TestParseRefusesWhatItCannotTrust(t *testing.T) {
	t.Parallel()
	const good = `{"order_id":"0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b","order_version":1,"customer_email":"","product_id":"a","quantity":1,"amount":1,"currency":"GBP","new_field":1}`
	if _, err := (*Service)(nil).Parse(rabbitmq.Message{Type: OrderCreated, Body: []byte(good)}); err != nil {
		t.Fatalf("refused a good one: %v", err)
	}
	tests := map[string]rabbitmq.Message{
		"empty":            {Type: OrderCreated},
		"not JSON":         {Type: OrderCreated, Body: []byte("hello")},
		"cut off":          {Type: OrderCreated, Body: []byte(good[:40])},
		"trailing":         {Type: OrderCreated, Body: []byte(good + "x")},
		"not UTF-8":        {Type: OrderCreated, Body: []byte(strings.Replace(good, `"a"`, "\"\xff\"", 1))},
		"an array":         {Type: OrderCreated, Body: []byte("[]")},
		"an unknown type":  {Type: "order.eaten", Body: []byte(good)},
		"no order":         {Type: OrderCreated, Body: []byte(strings.Replace(good, "order_id", "other", 1))},
		"a version of 0":   {Type: OrderCreated, Body: []byte(strings.Replace(good, `"order_version":1`, `"order_version":0`, 1))},
		"a negative total": {Type: OrderCreated, Body: []byte(strings.Replace(good, `"amount":1`, `"amount":-1`, 1))},
		"a bad address":    {Type: OrderCreated, Body: []byte(strings.Replace(good, `"customer_email":""`, `"customer_email":"a\r\nBcc: b@c"`, 1))},
	}
	for name, m := range tests {
		if _, err := (*Service)(nil).Parse(m); err == nil {
			t.Errorf("took one that is %s", name)
		}
	}
}
