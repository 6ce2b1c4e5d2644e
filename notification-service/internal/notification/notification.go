// Package notification tells customers by e-mail what became of their orders.
//
// The notification is recorded in the transaction that records its message, so it
// exists once. The e-mail itself cannot be in a transaction: it is sent under a
// lease, and what decides whether it is sent is the state of the notification:
//
//	pending ──start──► sending ──accepted──► sent
//	   │                  ├──refused──► rejected ──replayed──► may start again
//	   │                  └──lease ends, or not now──► may start again
//	   └──a newer event of the order is known──► superseded
//
// A crash after the mail server took the e-mail and before it is marked sent repeats
// it, with the same Message-ID. Nothing can prevent that: SMTP has no transactions
// (RFC 1047).
package notification

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/postgres"
)

// Config is who writes, and to whom when an order has no address.
type Config struct {
	From             string // an address; its domain ends every Message-ID
	DefaultRecipient string
}

// Mailer sends e-mails. Its errors are of three kinds: a [*RefusedError] or
// [*BadRecipientError] when this one will never be taken, an [*UnavailableError] when
// none is taken now, and any other when this one was not taken now.
type Mailer interface {
	Send(ctx context.Context, m Email) error
	// Probe reports whether e-mails would be taken now, without sending one.
	Probe(ctx context.Context) error
}

// Service records and sends notifications.
type Service struct {
	config  Config
	db      *postgres.DB
	mailer  Mailer
	metrics *Metrics
}

// NewService returns the notifications in db.
func NewService(config Config, db *postgres.DB, mailer Mailer, metrics *Metrics) *Service {
	return &Service{config: config, db: db, mailer: mailer, metrics: metrics}
}

// Record commits to a notification of e, in tx.
func (s *Service) Record(ctx context.Context, tx *postgres.Tx, id uuid.UUID, e Event) error {
	recipient := e.CustomerEmail
	if recipient == "" {
		recipient = s.config.DefaultRecipient
	}
	return record(ctx, tx, id, recipient, e)
}

// lease is how long one attempt to send may hold a notification. Sending and then
// writing down what became of it end long before.
const (
	lease         = 60 * time.Second
	sendTimeout   = 20 * time.Second
	settleTimeout = 5 * time.Second
)

// Complete sends the e-mail of a recorded notification, unless that is done, in
// hand, or pointless by now; it reports whether there was anything left to do.
func (s *Service) Complete(ctx context.Context, id uuid.UUID) (left bool, err error) {
	n, err := s.start(ctx, id)
	if err != nil {
		return false, err
	}
	switch n.Status {
	case sent, superseded:
		return false, nil
	case sending:
		if n.mine {
			crashpoint.At("notification.sending")
			return true, s.send(ctx, n)
		}
		return false, &InHandError{MessageID: id}
	default:
		return false, fmt.Errorf("notification %s is %q, which should not be possible", id, n.Status)
	}
}

func (s *Service) send(ctx context.Context, n notification) error {
	email, err := s.compose(n)
	if err == nil {
		err = s.hand(ctx, email)
	}
	return s.settle(ctx, n, err)
}

func (s *Service) hand(ctx context.Context, email Email) error {
	ctx, span := otel.Tracer("notification").Start(ctx, "send e-mail",
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("email.id", email.ID)))
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := withoutAddress(s.mailer.Send(ctx, email), email.To); err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		return fmt.Errorf("sending the e-mail: %w", err)
	}
	return nil
}

// settle writes down what became of the e-mail, also when ctx has ended: otherwise
// the lease would keep everybody waiting, or a sent e-mail would go out again.
func (s *Service) settle(ctx context.Context, n notification, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if reason, never := forGood(err); never {
		return errors.Join(err, s.reject(ctx, n, reason))
	}
	if err != nil {
		return errors.Join(err, s.putBack(ctx, n))
	}
	crashpoint.At("notification.mailed")
	ages, err := s.markSent(ctx, n.MessageID)
	if err != nil {
		return err
	}
	s.metrics.observe(ctx, ages)
	crashpoint.At("notification.sent")
	slog.InfoContext(ctx, "Order email sent to customer", "order_id", n.OrderID, "message_id", n.MessageID, "event_key", n.EventKey)
	return nil
}
