package notification

import (
	"context"
	"log/slog"
)

// Log stands in for a mail server where there is none: it sends nothing, and says
// what it would have sent.
type Log struct{}

// Send logs that m would go out; its recipient and text only at debug level.
func (Log) Send(ctx context.Context, m Email) error {
	slog.InfoContext(ctx, "e-mail written to the log only: SMTP_URL is empty", "email_id", m.ID, "subject", m.Subject)
	slog.DebugContext(ctx, "e-mail", "email_id", m.ID, "to", m.To, "text", m.Text)
	return nil
}

// Probe finds that there is always a log.
func (Log) Probe(context.Context) error { return nil }

// Close has nothing to end.
func (Log) Close() {}
