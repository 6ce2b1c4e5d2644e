package notification

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

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
	return desk{t, db, NewService(Config{From: "shop@example.com", DefaultRecipient: "guest@example.com"}, db, post, NewMetrics(prometheus.NewRegistry())), post}
}

// record commits to the notification of one event of an order.
func (d desk) record(order uuid.UUID, version int) uuid.UUID {
	d.Helper()
	id := uuid.New()
	d.recordAs(id, order, version)
	return id
}

func (d desk) recordAs(id, order uuid.UUID, version int) {
	d.Helper()
	e := anEvent(order, version)
	err := d.db.InTx(d.Context(), func(tx *postgres.Tx) error { return d.service.Record(d.Context(), tx, id, e) })
	if err != nil {
		d.Fatal(err)
	}
}

func anEvent(order uuid.UUID, version int) Event {
	return Event{Key: OrderCreated, OrderID: order, OrderVersion: version, ProductID: "sku123", Quantity: 2, Amount: 5998, Currency: "GBP"}
}

func (d desk) status(id uuid.UUID) (s string) {
	d.Helper()
	d.scan(&s, "SELECT status FROM notifications WHERE message_id = ?", id)
	return s
}

func (d desk) scan(into any, query string, args ...any) {
	d.Helper()
	err := d.db.InSnapshot(d.Context(), func(tx *postgres.Tx) error {
		return tx.Gorm(d.Context()).Raw(query, args...).Scan(into).Error
	})
	if err != nil {
		d.Fatal(err)
	}
}

func (d desk) exec(statement string, args ...any) {
	d.Helper()
	err := d.db.InTx(d.Context(), func(tx *postgres.Tx) error { return tx.Gorm(d.Context()).Exec(statement, args...).Error })
	if err != nil {
		d.Fatal(err)
	}
}

// want completes a notification and checks the state in which that leaves it.
func (d desk) want(id uuid.UUID, state string, err error) {
	d.Helper()
	if _, got := d.service.Complete(d.Context(), id); (got == nil) != (err == nil) || (err != nil && !errors.Is(got, err)) {
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
	if e.To != "guest@example.com" || e.ID != id.String()+"@example.com" || !strings.Contains(e.Text, "£59.98") {
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
			var held interface{ HeldElsewhere() }
			if _, err := d.service.Complete(t.Context(), id); err != nil && !errors.As(err, &held) {
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
	d.post.answer = func(context.Context) error { return busy }
	d.want(id, "pending", busy)
	d.post.answer = nil
	d.want(id, "sent", nil)
}

func TestARefusalForGoodIsRememberedUntilAReplayGetsThrough(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.record(uuid.New(), 1)
	refusal := &RefusedError{Reason: "550 no such user"}
	d.post.answer = func(context.Context) error { return refusal }
	d.want(id, "rejected", refusal)
	d.want(id, "rejected", refusal)
	d.post.answer = nil // somebody made the mailbox
	d.want(id, "sent", nil)
}

func TestAnEndedLeaseIsTakenOver(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.record(uuid.New(), 1)
	if n, err := d.service.start(t.Context(), id); err != nil || !n.mine {
		t.Fatalf("started %+v, error %v", n, err)
	}
	_, err := d.service.Complete(t.Context(), id)
	if held, ok := errors.AsType[*InHandError](err); !ok || held.MessageID != id {
		t.Errorf("error %v, want one that says who has it", err)
	}
	if state := d.status(id); state != "sending" {
		t.Errorf("it is %s", state)
	}
	d.exec("UPDATE notifications SET lease_until = now()")
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
