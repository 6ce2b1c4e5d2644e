// Package notification tells customers by e-mail what became of their orders.
//
// The notification is recorded in the transaction that records its message, so it
// exists once. The e-mail itself cannot be in a transaction: it is sent under a
// lease, and what decides whether it is sent is the state of the notification:
//
//	pending ──start──► sending ──accepted──► sent
//	   │                  ├──refused──► rejected
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

	"example.com/transactional-outbox/internal/postgres"
)

// Config is who writes, and to whom when an order has no address.
type Config struct {
	From             string // an address; its domain ends every Message-ID
	DefaultRecipient string
}

// Mailer sends an e-mail. It returns a [*RefusedError] when the server will never
// take it, and any other error when it did not take it now.
type Mailer interface {
	Send(ctx context.Context, m Email) error
}

// RefusedError says that the mail server refused the recipient or the message for
// good.
type RefusedError struct{ Reason string }

// Error is the server's answer.
func (e *RefusedError) Error() string { return "the mail server refused it: " + e.Reason }

// DeadLetterCode makes it permanent for the consumer.
func (*RefusedError) DeadLetterCode() string { return "recipient-refused" }

// Service records and sends notifications.
type Service struct {
	config Config
	db     *postgres.DB
	mailer Mailer
}

// NewService returns the notifications in db.
func NewService(config Config, db *postgres.DB, mailer Mailer) *Service {
	return &Service{config: config, db: db, mailer: mailer}
}

// Record commits to a notification of e, in tx.
func (s *Service) Record(ctx context.Context, tx *postgres.Tx, id uuid.UUID, e Event) error {
	recipient := e.CustomerEmail
	if recipient == "" {
		recipient = s.config.DefaultRecipient
	}
	return record(ctx, tx, id, recipient, e)
}

// lease is how long one attempt to send may hold a notification; sendTimeout ends
// the attempt long before.
const (
	lease       = 60 * time.Second
	sendTimeout = 20 * time.Second
)

var errBeingSent = errors.New("another worker is sending this e-mail")

// Complete sends the e-mail of a recorded notification, unless that is done, in
// hand, or pointless by now.
func (s *Service) Complete(ctx context.Context, id uuid.UUID) error {
	n, err := s.start(ctx, id)
	if err != nil {
		return err
	}
	switch n.Status {
	case sent, superseded:
		return nil
	case rejected:
		return &RefusedError{Reason: n.FailureReason}
	case sending:
		if n.mine {
			return s.send(ctx, n)
		}
		return errBeingSent
	default:
		return fmt.Errorf("notification %s is %s, which should not be possible", id, n.Status)
	}
}

func (s *Service) send(ctx context.Context, n notification) error {
	email, err := s.compose(n)
	if err != nil {
		return err
	}
	sendCtx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err = s.mailer.Send(sendCtx, email)

	var refused *RefusedError
	switch {
	case err == nil:
		if err := s.markSent(ctx, n.MessageID); err != nil {
			return err
		}
		slog.InfoContext(ctx, "Order email sent to customer", "order_id", n.OrderID, "message_id", n.MessageID, "event_key", n.EventKey)
		return nil
	case errors.As(err, &refused):
		return errors.Join(err, s.reject(ctx, n, refused.Reason))
	default:
		return errors.Join(fmt.Errorf("sending the e-mail: %w", err), s.putBack(ctx, n))
	}
}
