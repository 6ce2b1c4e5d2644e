package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// counters are what Stats is a copy of.
type counters struct {
	received, handled, failed, retried, deadLettered, copyFailures atomic.Uint64
}

// Stats returns how many deliveries are done, by their outcome, and whether messages are taken now.
// The outcomes are handled, retried and dead_lettered. Package prom reports them.
func (c *Consumer) Stats() (outcomes map[string]uint64, up bool) {
	return map[string]uint64{
		"handled":       c.stats.handled.Load(),
		"retried":       c.stats.retried.Load(),
		"dead_lettered": c.stats.deadLettered.Load(),
	}, c.Health() == nil
}

// Received returns how many messages were delivered, also those that are not done.
func (c *Consumer) Received() uint64 { return c.stats.received.Load() }

// Failed returns how often a message that was alone has failed.
func (c *Consumer) Failed() uint64 { return c.stats.failed.Load() }

// CopyFailures returns how many attempts at a copy have failed. They are repeated.
func (c *Consumer) CopyFailures() uint64 { return c.stats.copyFailures.Load() }

// CopiesWaiting returns how many messages wait for their copy now.
func (c *Consumer) CopiesWaiting() int { return len(c.places) }

// DeadLetters returns how many messages are in the queue of dead letters. It is asked every 10 s; 0
// before the first answer.
func (c *Consumer) DeadLetters() int { return int(c.letters.Load()) }

const countInterval = 10 * time.Second

func (c *Consumer) countDeadLetters(ctx context.Context, s *Session) error {
	for {
		n, _, err := s.CountReady(c.queue.DeadLetterQueue())
		if err != nil {
			return err
		}
		c.letters.Store(int64(n))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(countInterval):
		}
	}
}

const aSession = "a session with the broker"

func (c *Consumer) waitFor(what string) { c.waiting.Store(&what) }

// Overdue returns how long ago the handler's context has ended, if the handler has not returned a
// second later. Otherwise it is 0.
func (c *Consumer) Overdue() time.Duration {
	if late := c.overdue.Load(); late != nil {
		return time.Since(late.since)
	}
	return 0
}

// Health returns nil while messages are taken. Otherwise its error says what the consumer waits
// for.
func (c *Consumer) Health() error {
	if late := c.overdue.Load(); late != nil {
		return fmt.Errorf("waiting for its handler, which should have returned %.0f s ago: message %s", time.Since(late.since).Seconds(), late.id)
	}
	if what := *c.waiting.Load(); what != "" {
		return errors.New("waiting for " + what)
	}
	return nil
}

// Context returns ctx with the trace of the message. What the handler does with it is part of the
// trace: an event that it appends to an outbox, for example.
func (m Message) Context(ctx context.Context) context.Context {
	if m.span.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, m.span)
	}
	carrier := propagation.MapCarrier{"traceparent": text(m.Headers["traceparent"]), "tracestate": text(m.Headers["tracestate"])}
	return propagation.TraceContext{}.Extract(ctx, carrier)
}

// startSpan continues the trace that the message carries, or begins one. Names and attributes are
// those of OpenTelemetry's conventions for messaging.
// https://opentelemetry.io/docs/specs/semconv/messaging/rabbitmq/
func (c *Consumer) startSpan(ctx context.Context, d Delivery) *message {
	m := &message{Delivery: d}
	_, m.span = c.tracer.Start(d.Context(ctx), "process "+c.queue.Name, trace.WithSpanKind(trace.SpanKindConsumer)) //nolint:spancheck // it ends with the message
	m.Message.span = m.span.SpanContext()
	if m.span.IsRecording() {
		m.span.SetAttributes(
			semconv.MessagingSystemRabbitMQ,
			semconv.MessagingOperationTypeProcess,
			semconv.MessagingOperationName("process"),
			semconv.MessagingDestinationName(c.queue.Name),
			semconv.MessagingRabbitMQDestinationRoutingKey(validText(d.RoutingKey)),
			semconv.MessagingMessageID(validText(d.ID)),
			semconv.MessagingMessageBodySize(d.Size),
			attribute.Int64("rabbitmq.retry_count", retryCount(d.Message)))
	}
	return m
}

// endSpan adds the outcome. After an error it is "failed": the message was not acknowledged, and
// comes again.
func (m *message) endSpan(outcome string, err error) {
	if err != nil {
		outcome = "failed"
		reason := validText(err.Error())
		m.span.RecordError(errors.New(reason))
		m.span.SetStatus(codes.Error, reason)
	}
	m.span.SetAttributes(attribute.String("consumer.outcome", outcome))
	m.span.End()
}

// validText replaces bytes that are not UTF-8. A message may have any, and the exporter would lose
// the whole batch of spans for one of them.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
