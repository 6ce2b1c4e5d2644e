package consumer

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// startSpan continues the trace that the message carries, or begins one. Names and
// attributes are those of OpenTelemetry's conventions for messaging.
// https://opentelemetry.io/docs/specs/semconv/messaging/rabbitmq/
func (c *Consumer) startSpan(ctx context.Context, d rabbitmq.Delivery) (context.Context, trace.Span) {
	parent, _ := d.Headers["traceparent"].(string)
	ctx, span := otel.Tracer("consumer").Start(
		telemetry.WithTraceparent(ctx, parent), "process "+c.config.Queue, trace.WithSpanKind(trace.SpanKindConsumer))
	if span.IsRecording() {
		span.SetAttributes(
			semconv.MessagingSystemRabbitMQ,
			semconv.MessagingOperationTypeProcess,
			semconv.MessagingOperationName("process"),
			semconv.MessagingDestinationName(c.config.Queue),
			semconv.MessagingRabbitMQDestinationRoutingKey(validText(d.RoutingKey)),
			semconv.MessagingMessageID(validText(d.ID)),
			semconv.MessagingMessageBodySize(len(d.Body)),
			attribute.Int("rabbitmq.retry_count", counter(d.Message, RetryCountHeader)))
	}
	return ctx, span
}

// validText replaces bytes that are not UTF-8. A message may have any, and the exporter would lose
// the whole batch of spans for one of them.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// recordOutcome adds the outcome of the delivery to the span. After an error it is "failed":
// the message was not acknowledged, and comes again.
func recordOutcome(span trace.Span, o outcome, err error) {
	if err != nil {
		o = "failed"
		reason := validText(err.Error())
		span.RecordError(errors.New(reason))
		span.SetStatus(codes.Error, reason)
	}
	span.SetAttributes(attribute.String("consumer.outcome", string(o)))
}
