package main

import (
	"fmt"
	"net/mail"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/notification-service/internal/mailer"
)

// config is everything that can be set, by environment variables.
type config struct {
	settings.Shared

	// OpsAddr is where /livez, /readyz and /metrics are. It is not public.
	OpsAddr string `env:"OPS_ADDR" envDefault:"127.0.0.1:4101"`

	// ConsumerWorkers is how many e-mails are sent at the same time, each over a connection
	// of its own.
	ConsumerWorkers int `env:"CONSUMER_WORKERS" envDefault:"8"`
	// ConsumerBatchSize is how many messages are recorded in one transaction at most. A message
	// waits at most 10 ms for the batch before it. As many e-mails may be sent and not yet
	// marked: one SIGKILL repeats at most these and the ConsumerWorkers that are being sent.
	ConsumerBatchSize int `env:"CONSUMER_BATCH_SIZE" envDefault:"64"`
	// ConsumerPrefetch is how many messages are unacknowledged at most.
	ConsumerPrefetch int `env:"CONSUMER_PREFETCH" envDefault:"256"`
	// DeliveryLimit is how often a message may be delivered before the broker dead-letters it.
	// Changing it means deleting the queue.
	DeliveryLimit int `env:"DELIVERY_LIMIT" envDefault:"50"`

	// RetryDelays are how long a failed message waits before each further attempt. Other delays
	// make other queues; the old ones return their messages.
	RetryDelays []time.Duration `env:"RETRY_DELAYS" envDefault:"30s,1m,5m"`
	// InboxRetention is how long a message id is remembered. An older message may be a
	// duplicate, and becomes a dead letter.
	InboxRetention time.Duration `env:"INBOX_RETENTION" envDefault:"720h"`
	// NotificationRetention is how long notifications are kept. It is at least
	// INBOX_RETENTION.
	NotificationRetention time.Duration `env:"NOTIFICATION_RETENTION" envDefault:"720h"`
	// SMTPURL is the mail server; empty: e-mails are written to the log.
	SMTPURL settings.Secret `env:"SMTP_URL"`
	// MailFrom is the sender of every e-mail.
	MailFrom string `env:"MAIL_FROM" envDefault:"shop@example.com"`
	// DefaultRecipient gets the e-mails of orders without an address.
	DefaultRecipient string `env:"DEFAULT_RECIPIENT" envDefault:"guest@example.com"`
}

const (
	maxWorkers  = 1000 // far beyond use: each worker needs a connection to the mail server
	maxBatch    = 1000 // far beyond use: a batch is one transaction
	maxPrefetch = 2000 // after a start, a waiting message keeps a channel; a connection has 2047
	maxDelay    = 24 * time.Hour
	maxTiers    = 10
	minInbox    = maxDelay + time.Hour // a message must outlast its retries
)

// check returns everything that is wrong.
func check(c config) []error {
	errs := slices.Concat(
		c.Check(),
		settings.CheckAddress("OPS_ADDR", c.OpsAddr),
		settings.AtLeast("CONSUMER_WORKERS", c.ConsumerWorkers, 1),
		settings.AtMost("CONSUMER_WORKERS", c.ConsumerWorkers, maxWorkers),
		settings.AtLeast("CONSUMER_BATCH_SIZE", c.ConsumerBatchSize, 1),
		settings.AtMost("CONSUMER_BATCH_SIZE", c.ConsumerBatchSize, maxBatch),
		settings.AtLeast("CONSUMER_PREFETCH", c.ConsumerPrefetch, c.ConsumerWorkers),
		settings.AtMost("CONSUMER_PREFETCH", c.ConsumerPrefetch, maxPrefetch),
		settings.AtLeast("DELIVERY_LIMIT", c.DeliveryLimit, 1),
		checkDelays(c.RetryDelays),
		settings.AtLeast("INBOX_RETENTION", c.InboxRetention, minInbox),
		settings.AtLeast("NOTIFICATION_RETENTION", c.NotificationRetention, c.InboxRetention),
		checkMail("MAIL_FROM", c.MailFrom),
		checkMail("DEFAULT_RECIPIENT", c.DefaultRecipient),
	)
	if _, err := c.mailer(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// checkWithBroker returns also what is wrong for a command that connects to the broker.
func checkWithBroker(c config) []error { return slices.Concat(check(c), c.CheckBroker()) }

func checkDelays(delays []time.Duration) []error {
	if len(delays) < 1 || len(delays) > maxTiers {
		return []error{fmt.Errorf("RETRY_DELAYS must be 1 to %d durations, with commas between them", maxTiers)}
	}
	for i, delay := range delays {
		if delay < time.Millisecond || delay > maxDelay || delay%time.Millisecond != 0 {
			return []error{fmt.Errorf("RETRY_DELAYS must be whole milliseconds, from 1ms to %s; %s is not", maxDelay, delay)}
		}
		if i > 0 && delay <= delays[i-1] {
			return []error{fmt.Errorf("RETRY_DELAYS must grow; %s after %s does not", delay, delays[i-1])}
		}
	}
	return nil
}

func checkMail(name, address string) []error {
	if parsed, err := mail.ParseAddress(address); err != nil || parsed.Address != address {
		return []error{fmt.Errorf("%s must be a plain e-mail address", name)}
	}
	return nil
}

func (c config) mailer() (mailer.Mailer, error) {
	if c.SMTPURL == "" {
		return mailer.Log{}, nil
	}
	smtp, err := mailer.NewSMTP(c.SMTPURL.Reveal(), c.ConsumerWorkers)
	if err != nil {
		return nil, fmt.Errorf("SMTP_URL: %w", err)
	}
	return smtp, nil
}
