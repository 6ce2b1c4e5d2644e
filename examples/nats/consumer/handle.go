package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/grace"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// retryPause is the pause before the server delivers a message again that could not be handled.
const retryPause = 2 * time.Second

// errMalformed is the error of a message that can never have its effect.
var errMalformed = errors.New("malformed")

type handler struct {
	db     *postgres.DB
	inbox  *inbox.Inbox
	effect *notification.Service
	js     jetstream.JetStream
	limit  time.Duration // for one message; less than the server waits for its acknowledgement
}

// handle processes a message and then acknowledges it. After the start of a shutdown, it still
// finishes the message.
func (h *handler) handle(ctx context.Context, m jetstream.Msg) {
	ctx, done := grace.Period(ctx, h.limit)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, h.limit)
	defer cancel()
	err := h.process(ctx, m)
	if errors.Is(err, errMalformed) {
		err = h.deadLetter(ctx, m, err)
	} else if err == nil {
		err = m.Ack()
	}
	if err != nil {
		slog.WarnContext(ctx, "not acknowledged, it will come again", "subject", m.Subject(), "error", err)
		_ = m.NakWithDelay(retryPause)
	}
}

// process records the message and its effect in one transaction, and sends the e-mail after that.
func (h *handler) process(ctx context.Context, m jetstream.Msg) error {
	message, event, err := h.parse(m)
	if err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	var seen inbox.Result
	var recorded notification.Notification
	err = h.db.InTx(ctx, func(tx pgx.Tx) error {
		results, err := h.inbox.Record(ctx, tx, []inbox.Message{message})
		if err != nil {
			return err
		}
		if seen = results[0]; seen == inbox.OutsideWindow {
			return nil
		}
		notifications, err := h.effect.Record(ctx, tx, []notification.Request{{ID: message.ID, Event: event, First: seen == inbox.First}})
		if err == nil {
			recorded = notifications[0]
		}
		crashpoint.At("consumer.recorded")
		return err
	})
	if err != nil {
		return err
	}
	crashpoint.At("consumer.committed")
	switch seen {
	case inbox.OutsideWindow:
		return fmt.Errorf("%w: created at %s, so it may be a repeat that the inbox has forgotten", errMalformed, message.CreatedAt)
	case inbox.Duplicate:
		slog.InfoContext(ctx, "duplicate", "message_id", message.ID)
	default:
	}
	return h.send(ctx, recorded)
}

// send sends the e-mail, if it is not sent yet and this process has the lease for it.
func (h *handler) send(ctx context.Context, n notification.Notification) error {
	h.effect.AfterCommit(n)
	switch {
	case n.HasLease:
		if err := h.effect.Send(ctx, n); err != nil {
			h.effect.Release(ctx, n.MessageID)
			return err
		}
		return h.effect.MarkSent(ctx, n)
	case n.Status == notification.Sending:
		return fmt.Errorf("another process has the lease of the e-mail of message %s", n.MessageID)
	default:
		return nil // it was sent before, or a newer event supersedes it
	}
}

// parse reads the headers that the publisher has set, and the body. Messages are not trusted.
func (h *handler) parse(m jetstream.Msg) (inbox.Message, notification.Event, error) {
	id, errID := uuid.Parse(m.Headers().Get(jetstream.MsgIDHeader))
	if id == uuid.Nil && errID == nil {
		errID = errors.New("the id is zero")
	}
	at, errAt := time.Parse(time.RFC3339Nano, m.Headers().Get("Timestamp"))
	event, errEvent := h.effect.Parse(rabbitmq.Message{Type: m.Headers().Get("Type"), Body: m.Data()})
	return inbox.Message{ID: id, CreatedAt: at}, event, errors.Join(errID, errAt, errEvent)
}

// deadLetter copies a message to the stream for dead letters. Then it tells the server not to
// deliver the message again. If the process dies in between, the message is delivered and copied
// again.
func (h *handler) deadLetter(ctx context.Context, m jetstream.Msg, reason error) error {
	at, err := m.Metadata()
	if err != nil {
		return err
	}
	dead := nats.Msg{Subject: deadLetters, Data: m.Data(), Header: nats.Header{}}
	for name, values := range m.Headers() {
		if !strings.HasPrefix(strings.ToLower(name), "nats-") { // those are instructions for the server
			dead.Header[name] = values
		}
	}
	// The message's own id may be missing, or that of another message.
	dead.Header.Set(jetstream.MsgIDHeader, fmt.Sprint(stream, "-", at.Sequence.Stream))
	dead.Header.Set("Original-Id", m.Headers().Get(jetstream.MsgIDHeader))
	dead.Header.Set("Failure-Reason", oneLine(reason))
	dead.Header.Set("Original-Subject", m.Subject())
	if _, err := h.js.PublishMsg(ctx, &dead); err != nil {
		return fmt.Errorf("copying a dead letter: %w", err)
	}
	slog.ErrorContext(ctx, "dead letter", "subject", m.Subject(), "stream", deadStream, "error", reason)
	return m.TermWithReason(oneLine(reason))
}

// oneLine is for headers, which have no line ends.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
