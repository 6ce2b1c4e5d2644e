package consumer

import (
	"context"
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

// bury publishes a copy of the message to the dead-letter queue. Only after this
// returns nil may the message be acknowledged.
func (c *Consumer[E]) bury(ctx context.Context, d rabbitmq.Delivery, cause Permanent) error {
	dead := d.Message
	dead.Exchange = c.config.DeadLetterExchange
	dead.Headers = withoutBrokerHeaders(d.Headers)
	dead.Headers["failure-reason"] = shorten(cause.DeadLetterCode() + ": " + cause.Error())
	dead.Headers["failed-at"] = time.Now().UTC().Format(time.RFC3339)
	dead.Headers["original-exchange"] = d.Exchange
	if err := c.deadLetters.Publish(ctx, dead); err != nil {
		return fmt.Errorf("copying message %s to the dead letters: %w", d.ID, err)
	}
	slog.ErrorContext(ctx, "message dead-lettered", "message_id", d.ID, "routing_key", d.RoutingKey, "error", cause)
	return nil
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
