package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/internal/grace"
	"example.com/transactional-outbox/notification-service/internal/effect"
	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// retryPause is the pause before the server delivers a message again that could not be handled.
const retryPause = 2 * time.Second

// errMalformed is the error of a message that can never have its effect.
var errMalformed = errors.New("malformed")

type handler struct {
	effect *effect.Handler
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

// process records the message and its e-mail in one transaction. The relay sends the e-mail.
func (h *handler) process(ctx context.Context, m jetstream.Msg) error {
	// The effect is the same for every broker. So a message of NATS becomes one of RabbitMQ.
	message := rabbitmq.Message{ID: m.Headers().Get(jetstream.MsgIDHeader), Type: m.Headers().Get("Type"), Body: m.Data()}
	if err := email.Check(message); err != nil { // messages are not trusted
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return h.effect.Handle(ctx, []rabbitmq.Message{message})
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
