package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"example.com/transactional-outbox/internal/rabbitmq"
)

// Permanent is an error that no repeat mends: the message is a dead letter. An
// [Effect] may return one from any of its methods.
type Permanent interface {
	error
	// DeadLetterCode says why, from a small set: "malformed", for one.
	DeadLetterCode() string
}

// malformed marks what cannot be read.
type malformed struct{ error }

// DeadLetterCode makes it Permanent.
func (malformed) DeadLetterCode() string { return "malformed" }

// maxReason bounds the header failure-reason, in bytes.
const maxReason = 512

// bury publishes a copy of the message to the dead-letter queue. Only after the copy
// is confirmed may the message be acknowledged.
//
// What no publisher may send (its headers are too large, for one) the broker moves
// to the same queue itself, when it is rejected.
func (c *Consumer[E]) bury(ctx context.Context, d rabbitmq.Delivery, cause Permanent) (settle func() error, err error) {
	dead := d.Message
	dead.Exchange = c.config.DeadLetterExchange
	dead.Headers = withoutBrokerHeaders(d.Headers)
	dead.Headers["failure-reason"] = shorten(cause.DeadLetterCode() + ": " + cause.Error())
	dead.Headers["failed-at"] = time.Now().UTC().Format(time.RFC3339)
	dead.Headers["original-exchange"] = d.Exchange
	settle = d.Ack
	switch err := c.deadLetters.Publish(ctx, dead); {
	case errors.Is(err, rabbitmq.ErrInvalid):
		settle = d.Reject
	case err != nil:
		return nil, fmt.Errorf("copying message %s to the dead letters: %w", d.ID, err)
	}
	slog.ErrorContext(ctx, "message dead-lettered", "message_id", d.ID, "routing_key", d.RoutingKey, "error", cause)
	return settle, nil
}

// withoutBrokerHeaders returns the headers that a copy may carry. The broker reads
// the others: CC and BCC route the copy to more queues, and RabbitMQ 3.10 drops a
// message whose x-death says that it has been here before.
func withoutBrokerHeaders(headers map[string]any) map[string]any {
	kept := maps.Clone(headers)
	if kept == nil {
		kept = map[string]any{}
	}
	maps.DeleteFunc(kept, func(name string, _ any) bool {
		return strings.HasPrefix(name, "x-") || name == "CC" || name == "BCC"
	})
	return kept
}

func shorten(reason string) string {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	return strings.ToValidUTF8(reason, "")
}
