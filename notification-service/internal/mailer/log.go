package mailer

import (
	"context"
	"log/slog"
)

// Log is the mailer without a mail server. It sends nothing, and logs what it would have sent.
type Log struct{}

// Send logs that m would be sent. It logs the recipient and the text only at debug level.
func (Log) Send(ctx context.Context, m Email) error {
	slog.InfoContext(ctx, "e-mail written to the log only: SMTP_URL is empty", "email_id", m.ID, "subject", m.Subject)
	slog.DebugContext(ctx, "e-mail", "email_id", m.ID, "to", m.To, "text", m.Text)
	return nil
}

// Probe always succeeds.
func (Log) Probe(context.Context) error { return nil }

// Close does nothing.
func (Log) Close() {}
