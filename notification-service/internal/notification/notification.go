// Package notification tells customers by e-mail what became of their orders.
//
// A notification is recorded in the transaction that records its message, so it exists
// once. The e-mail itself cannot be in a transaction. It is sent under a lease, and the
// state of the notification decides whether it is sent:
//
//	(new) ──Record──► sending ──accepted──► sent
//	  │                 │ ├──not now──► pending ──Record──► sending
//	  │                 │ └──refused──► rejected ──replayed by an operator──► sending
//	  │                 └──the lease ends: the process died──► may be leased again
//	  └──a newer event of the order is known──► superseded
//
// # What it promises
//
// An e-mail that the mail server has accepted stays known to this process until that is
// written to the database, however long the database is away. The lease is renewed while
// an e-mail is being sent, however slow the mail server is.
//
// An e-mail can be repeated, with the same Message-ID, only if the process dies or stalls
// beyond its lease after the server accepted it and before that is written, or if the
// server's reply is lost. Nothing can prevent that: SMTP has no transactions (RFC 1047).
package notification

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/notification-service/internal/batch"
)

// Config is the sender, the recipient of orders without an address, and how long notifications
// are kept.
type Config struct {
	From             string        // an address; its domain ends every Message-ID
	DefaultRecipient string        // for orders without an address
	Retention        time.Duration // at least as long as the inbox remembers messages
}

// Mailer sends e-mails. An error says whose fault it is: see errors.go.
type Mailer interface {
	Send(ctx context.Context, m Email) error
	// Probe reports whether the server answers, without sending an e-mail.
	Probe(ctx context.Context) error
	// Close ends the connections that are kept.
	Close()
}

// Service records and sends notifications.
type Service struct {
	config  Config
	db      *postgres.DB
	mailer  Mailer
	metrics *Metrics
	token   uuid.UUID // of all leases of this process
	leases  leases
	renewal time.Duration
	marks   *batch.Batcher[mark, error]
}

// maxMarks is how many outcomes are written in one transaction.
const maxMarks = 256

// NewService returns the notifications in db. [Service.Run] must run while it is used.
func NewService(config Config, db *postgres.DB, mailer Mailer, metrics *Metrics) *Service {
	s := &Service{config: config, db: db, mailer: mailer, metrics: metrics, token: uuid.New(), renewal: leaseRenewal}
	s.leases.held = map[uuid.UUID]struct{}{}
	s.marks = batch.New(maxMarks, s.writeMarks)
	return s
}

// Run writes what becomes of the e-mails, and renews the leases, until ctx ends. Let ctx
// end after the last e-mail: what is not written by then is sent again.
func (s *Service) Run(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return s.keepLeases(ctx) })
	running.Go(func() error { return s.marks.Run(ctx, 1) })
	return running.Wait()
}

// Send sends the e-mail of a notification that this process has leased. It returns nil
// when the mail server has accepted the e-mail and the database knows it. After an error
// the notification is still leased: [Service.Release] or [Service.Reject] ends that.
//
// The end of ctx breaks the sending off. What the server has accepted by then is written
// all the same.
func (s *Service) Send(ctx context.Context, n Notification) error {
	crashpoint.At("notification.sending")
	email, err := s.compose(n)
	if err == nil {
		err = s.hand(ctx, email)
	}
	if err != nil {
		return err
	}
	crashpoint.At("notification.mailed")
	if err := s.markSurely(ctx, mark{kind: markSent, id: n.MessageID, ctx: ctx}); err != nil {
		return err
	}
	crashpoint.At("notification.sent")
	slog.InfoContext(ctx, "Order email sent to customer", "order_id", n.OrderID, "message_id", n.MessageID, "event_key", n.EventKey)
	return nil
}

func (s *Service) hand(ctx context.Context, email Email) error {
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

// Release gives the lease back: the notification may be leased again at once. If that
// cannot be written, the lease ends by itself.
func (s *Service) Release(ctx context.Context, id uuid.UUID) {
	s.leases.remove(id)
	if err := s.mark(ctx, mark{kind: markPending, id: id}); err != nil {
		slog.WarnContext(ctx, "cannot give a lease back, it will end by itself", "message_id", id, "error", err)
	}
}

// Reject notes that the e-mail will never be sent. Call it after the message is safe among
// the dead letters: a message whose notification is rejected is done.
func (s *Service) Reject(ctx context.Context, id uuid.UUID, reason string) error {
	s.leases.remove(id)
	return s.markSurely(ctx, mark{kind: markRejected, id: id, reason: shorten(reason)})
}
