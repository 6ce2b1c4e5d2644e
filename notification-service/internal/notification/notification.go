// Package notification sends customers e-mails about their orders.
//
// A notification is recorded in the transaction that records its message, so it exists once. The
// e-mail itself cannot be in a transaction. It is sent under a lease, and the notification's
// state decides whether it is sent:
//
//	(new) ──Record──► sending ──accepted──► sent
//	  │                 │ ├──deferred──► pending ──Record──► sending
//	  │                 │ └──refused──► rejected ──an operator replays it──► sending
//	  │                 └──its process dies, the lease ends──► may be leased again
//	  └──the order has a newer event──► superseded
//
// # What it promises
//
// When the mail server has accepted an e-mail, this process remembers it until the database
// knows it, however long the database is away. The lease is renewed while an e-mail is being
// sent, however slow the mail server is.
//
// An e-mail can be repeated, with the same Message-ID, in two cases only. The process dies, or
// stalls beyond its lease, after the server accepted the e-mail and before the database knows
// it. Or the server's reply is lost. Nothing can prevent that: SMTP has no transactions
// (RFC 1047).
package notification

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/notification-service/internal/batch"
	"example.com/transactional-outbox/notification-service/internal/mailer"
)

// Config is the sender, the recipient of orders without an address, and how long notifications
// are kept.
type Config struct {
	From             string        // an address; its domain ends every Message-ID
	DefaultRecipient string        // for orders without an address
	Retention        time.Duration // at least as long as the inbox remembers messages
}

// Service records and sends notifications.
type Service struct {
	config  Config
	db      *postgres.DB
	mailer  mailer.Mailer
	metrics *Metrics
	token   uuid.UUID // of all leases of this process
	leases  leases
	renewal time.Duration
	marks   *batch.Batcher[mark, error]
	// rows is held while rows are marked or renewed. Both skip rows that another transaction has
	// locked. Without it, a renewal would make a mark of the same process fail.
	rows sync.Mutex
}

// maxMarks is how many outcomes are written in one transaction.
const maxMarks = 256

// NewService returns a service for the notifications in db. [Service.Run] must run while it is
// used.
func NewService(config Config, db *postgres.DB, mailer mailer.Mailer, metrics *Metrics) *Service {
	s := &Service{config: config, db: db, mailer: mailer, metrics: metrics, token: uuid.New(), renewal: leaseRenewal}
	s.leases.held = map[uuid.UUID]struct{}{}
	s.marks = batch.New(maxMarks, s.writeMarks)
	return s
}

// Run writes the marks, and renews the leases, until ctx ends. Let ctx end after the last
// e-mail. An e-mail whose mark is not written by then is sent again.
func (s *Service) Run(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return s.keepLeases(ctx) })
	running.Go(func() error { return s.marks.Run(ctx, 1) })
	return running.Wait()
}

// Send sends the e-mail of a notification that this process has leased. It returns nil when the
// mail server has accepted the e-mail. Call [Service.MarkSent] then. After an error the
// notification is still leased, until [Service.Release] or [Service.Reject].
//
// Send stops when ctx ends.
func (s *Service) Send(ctx context.Context, n Notification) error {
	crashpoint.At("notification.sending")
	email, err := s.compose(n)
	if err == nil {
		err = s.sendTraced(ctx, email)
	}
	if err != nil {
		return err
	}
	crashpoint.At("notification.mailed")
	return nil
}

// MarkSent records that the mail server has accepted the e-mail of n. It returns nil when the
// database knows it. It makes at least one attempt, and no further one after ctx has ended. An
// attempt lasts until the database answers or Run ends.
func (s *Service) MarkSent(ctx context.Context, n Notification) error {
	if err := s.markUntilDone(ctx, mark{status: Sent, id: n.MessageID, ctx: ctx}); err != nil {
		return err
	}
	crashpoint.At("notification.sent")
	telemetry.Milestone(ctx, "Order email sent to customer", "order_id", n.OrderID, "message_id", n.MessageID, "event_key", n.EventKey)
	return nil
}

func (s *Service) sendTraced(ctx context.Context, email mailer.Email) error {
	ctx, span := otel.Tracer("notification").Start(ctx, "send e-mail",
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("email.id", email.ID)))
	defer span.End()
	if err := s.mailer.Send(ctx, email); err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		return fmt.Errorf("sending the e-mail: %w", err)
	}
	return nil
}

// Release gives the lease back, so that the notification may be leased again at once. If the
// database cannot be written, the lease expires.
func (s *Service) Release(ctx context.Context, id uuid.UUID) {
	s.leases.remove(id)
	if err := s.mark(ctx, mark{status: Pending, id: id}); err != nil {
		slog.WarnContext(ctx, "cannot give a lease back, it will end by itself", "message_id", id, "error", err)
	}
}

// Reject records that the e-mail will never be sent. Call it after the message is in the
// dead-letter queue: a message whose notification is rejected is done.
func (s *Service) Reject(ctx context.Context, id uuid.UUID, reason string) error {
	s.leases.remove(id)
	return s.markUntilDone(ctx, mark{status: Rejected, id: id, reason: shorten(reason)})
}
