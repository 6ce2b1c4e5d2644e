package consumer

import (
	"errors"
	"log/slog"
)

// deadLetter moves the message to the dead letters.
func (c *Consumer) deadLetter(d *delivery, code string, err error) (outcome, error) {
	slog.ErrorContext(d.ctx, "message dead-lettered", "message_id", d.ID, "routing_key", d.RoutingKey, "failure_code", code, "error", err)
	headers := map[string]any{
		RetryCountHeader:    int64(counter(d.Message, RetryCountHeader)),
		FailureCodeHeader:   code,
		FailureReasonHeader: truncate(err.Error()),
	}
	var afterCopy func() error
	if _, permanent := errors.AsType[Permanent](err); permanent && d.leased {
		afterCopy = func() error {
			d.leased = false
			return c.effect.Reject(d.ctx, d.id, err.Error())
		}
	}
	return deadLettered, c.move(d, c.config.DeadLetterExchange, headers, afterCopy)
}
