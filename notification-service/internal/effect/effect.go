// Package effect makes an e-mail of each order event that is the newest of its order.
//
//	the consumer: takeBatch ─► email.Check ─► Handle ─► acknowledge
//	Handle:       the inbox: is the message new? ─► raise: is it its order's newest? ─► Append its e-mail
//	              └──────────── one transaction for all messages of a batch, then wake the relay ───────┘
//
// An event that comes after a newer one of its order is superseded: the inbox knows it, a metric
// counts it, and nothing is sent. A version that comes twice, because order-service's database was
// restored, is superseded too.
//
// The relay sends the e-mails of one order in the order of their versions. For that, the versions
// must be appended in this order. The row of order_progress is the lock: it is held until the
// commit, and only a transaction that raises its version appends an e-mail.
package effect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/inbox"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// aggregate is the outbox's name for orders.
const aggregate = "order"

// Config has what a handler needs besides its database.
type Config struct {
	Consumer         string        // the inbox's name for this service
	InboxRetention   time.Duration // how long the ids of messages are kept
	DefaultRecipient string        // for orders without an address
	Wake             func()        // is called when e-mails are committed
}

// Handler is the handler of a rabbitmq.Consumer. It has the inbox's methods Ready and Run, and
// wakes the relay after a commit.
type Handler struct {
	*inbox.Inbox[rabbitmq.Message]
	config  Config
	metrics *Metrics
	batch   result // of the batch in flight: the consumer handles one after the other
}

// result is what a batch has become. It counts when the batch is committed.
type result struct {
	emails     []appended
	superseded int
}

// appended is an e-mail in the outbox, and how long after its event.
type appended struct {
	email.Order
	message rabbitmq.Message
	after   time.Duration
}

// NewHandler returns a handler for the messages of one consumer.
func NewHandler(pool *pgxpool.Pool, c Config, m *Metrics) *Handler {
	h := &Handler{config: c, metrics: m}
	h.Inbox = inbox.OnceBatch(pool, c.Consumer, h.record, inbox.Retention(c.InboxRetention))
	return h
}

// Handle gives a batch its effect, in one transaction.
func (h *Handler) Handle(ctx context.Context, batch []rabbitmq.Message) error {
	h.batch = result{}
	if err := h.Inbox.Handle(ctx, batch); err != nil {
		return err
	}
	crashpoint.At("effect.committed")
	h.metrics.count(ctx, len(batch), h.batch)
	for _, e := range h.batch.emails {
		telemetry.Milestone(e.message.Context(ctx), "E-mail is in the outbox", "order_id", e.OrderID, "message_id", e.MessageID, "event_type", e.Type)
	}
	if len(h.batch.emails) > 0 {
		h.config.Wake()
	}
	return nil
}

// record is the effect of the new messages of a batch.
func (h *Handler) record(ctx context.Context, tx pgx.Tx, messages []rabbitmq.Message) error {
	orders := make([]email.Order, len(messages))
	for i, m := range messages {
		var err error
		if orders[i], err = email.Parse(m); err != nil { // its type is unknown: Check lets it through
			return fmt.Errorf("message %.300q: %w", m.ID, err)
		}
	}
	raised, err := raise(ctx, tx, orders)
	if err != nil {
		return err
	}
	var emails []outbox.Event
	h.batch = result{} // a try that was rolled back does not count
	for i, o := range orders {
		p, found := raised[o.OrderID]
		if !found || p.version != o.OrderVersion {
			h.batch.superseded++
			continue
		}
		delete(raised, o.OrderID) // the same version again is superseded
		e, err := h.emailOf(ctx, o, messages[i])
		if err != nil {
			return err
		}
		emails = append(emails, e)
		h.batch.emails = append(h.batch.emails, appended{o, messages[i], p.at.Sub(o.OccurredAt)})
	}
	err = outbox.Append(ctx, tx, emails...)
	if errors.Is(err, outbox.ErrInvalid) { // a domain or a product is too long
		return fmt.Errorf("%w: %w", rabbitmq.ErrPermanent, err)
	}
	crashpoint.At("effect.recorded")
	return err
}

// raiseSQL raises the versions of the orders of a batch, and returns the orders whose version has
// risen. If an order is in the batch twice, only its newest event counts. So a batch appends at
// most one e-mail for an order, and a newer e-mail never shares a transaction with one that it
// overtakes.
//
//   - ORDER BY: all transactions lock the orders in this order. Otherwise two replicas with the
//     same orders would deadlock.
//   - WHERE: an order that has this version or a newer one is locked, but not changed and not
//     returned. After a wait for another transaction, its version is the one that is compared.
//   - clock_timestamp(), because now() is the begin of the transaction, before the waits.
const raiseSQL = `
INSERT INTO order_progress AS known (order_id, last_version)
SELECT order_id, max(version) FROM unnest(cast($1 AS uuid[]), cast($2 AS int[])) AS new (order_id, version)
GROUP BY order_id ORDER BY order_id
ON CONFLICT (order_id) DO UPDATE SET last_version = excluded.last_version WHERE known.last_version < excluded.last_version
RETURNING order_id, last_version, clock_timestamp()`

// progress is the new version of an order, and the database's time.
type progress struct {
	version int
	at      time.Time
}

func raise(ctx context.Context, tx pgx.Tx, events []email.Order) (map[uuid.UUID]progress, error) {
	orders, versions := make([][16]byte, len(events)), make([]int, len(events))
	for i, e := range events {
		orders[i], versions[i] = e.OrderID, e.OrderVersion
	}
	rows, _ := tx.Query(ctx, raiseSQL, orders, versions) // ForEachRow returns its error
	raised := map[uuid.UUID]progress{}
	var (
		order [16]byte
		p     progress
	)
	_, err := pgx.ForEachRow(rows, []any{&order, &p.version, &p.at}, func() error {
		raised[order] = p
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("raising the versions of orders: %w", err)
	}
	return raised, nil
}

// emailOf returns the e-mail about o, for the outbox. It has the message's id and trace, so that
// one order can be followed by them. Its topic is the recipient's domain: that is what a mail
// server delays or refuses as a whole.
func (h *Handler) emailOf(ctx context.Context, o email.Order, m rabbitmq.Message) (outbox.Event, error) {
	o.CustomerEmail = cmp.Or(o.CustomerEmail, h.config.DefaultRecipient)
	payload, err := json.Marshal(o)
	if err != nil {
		return outbox.Event{}, fmt.Errorf("encoding the e-mail of message %s: %w", m.ID, err)
	}
	return outbox.Event{
		Topic: mailer.Domain(o.CustomerEmail), Aggregate: aggregate, AggregateID: o.OrderID.String(), Version: o.OrderVersion,
		ID: o.MessageID, Payload: payload, Supersedes: true,
		Traceparent: telemetry.Traceparent(m.Context(ctx)),
	}, nil
}
