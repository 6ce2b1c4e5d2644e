package deadletter

import (
	"context"
	"fmt"
	"log/slog"
)

// discard logs before it removes, so that no message is removed without a log line.
func (r *run) discard(ctx context.Context, f Found) (refusal string, err error) {
	slog.InfoContext(ctx, "dead letter discarded", "message_id", f.ID, "routing_key", f.RoutingKey,
		"failure_code", f.Code, "failure_reason", f.Reason, "size", f.Size, "by", r.By.Operator, "decision", r.By.Decision)
	if err := f.Remove(); err != nil {
		return "", unclearError{fmt.Errorf("%s is still here: %w", f.ID, err)}
	}
	return "", nil
}
