package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// config is everything that can be set, by environment variables.
type config struct {
	settings.Shared
	settings.Relay // of the relay that sends the e-mails
	settings.Page

	// OpsAddr is where /livez, /readyz, /metrics and the page are. It is not public.
	OpsAddr string `env:"OPS_ADDR" envDefault:"127.0.0.1:4101"`

	// ConsumerBatchSize is how many messages are handled in one transaction at most.
	ConsumerBatchSize int `env:"CONSUMER_BATCH_SIZE" envDefault:"64"`
	// ConsumerPrefetch is how many messages are unacknowledged at most.
	ConsumerPrefetch int `env:"CONSUMER_PREFETCH" envDefault:"128"`
	// ConsumerGiveUp is how long after its first failure a message becomes a dead letter.
	ConsumerGiveUp time.Duration `env:"CONSUMER_GIVE_UP" envDefault:"24h"`
	// DeliveryLimit is how often a message may be delivered before the broker dead-letters it.
	// Changing it means deleting the queue.
	DeliveryLimit int `env:"DELIVERY_LIMIT" envDefault:"50"`
	// RetryDelays are how long a failed message waits before each further attempt; the last one
	// repeats. Other delays make other queues. The old queues stay, and still return their messages.
	RetryDelays []time.Duration `env:"RETRY_DELAYS" envDefault:"30s,1m,5m"`
	// InboxRetention is how long a message id is remembered. It must outlast CONSUMER_GIVE_UP by two
	// days. An older message is a dead letter.
	InboxRetention time.Duration `env:"INBOX_RETENTION" envDefault:"720h"`

	// SMTPURL is the mail server. "log:" writes e-mails to the log instead; empty: the same, but only
	// in the demo.
	SMTPURL settings.Secret `env:"SMTP_URL"`
	// MailConnections is how many e-mails are sent at the same time, each over a connection of its
	// own.
	MailConnections int `env:"MAIL_CONNECTIONS" envDefault:"8"`
	// MailFrom is the sender of every e-mail.
	MailFrom string `env:"MAIL_FROM" envDefault:"shop@example.com"`
	// MailHelo is what the service calls itself. The default is the machine's name if it has a dot, and
	// otherwise its address.
	MailHelo string `env:"MAIL_HELO"`
	// DefaultRecipient gets the e-mails of orders without an address.
	DefaultRecipient string `env:"DEFAULT_RECIPIENT" envDefault:"guest@example.com"`

	// RelayWindow is how many e-mails of a relay's worker may wait for the mail server's answer.
	RelayWindow int `env:"RELAY_WINDOW" envDefault:"64"`
}

const (
	maxConnections = 1000 // more than anybody needs
	maxBatch       = 1000 // outbox.Append takes as many events
	maxPrefetch    = 2000 // after a start, a waiting message keeps a channel; a connection has 2047
	maxDelay       = 24 * time.Hour
	maxTiers       = 10
	outlastsGiveUp = 2 * 24 * time.Hour // the last retry, and a day for a replay
)

// check returns everything that is wrong.
func check(c config) []error {
	errs := slices.Concat(
		c.Check(),
		settings.CheckAddress("OPS_ADDR", c.OpsAddr),
		settings.AtLeast("CONSUMER_BATCH_SIZE", c.ConsumerBatchSize, 1),
		settings.AtMost("CONSUMER_BATCH_SIZE", c.ConsumerBatchSize, maxBatch),
		settings.AtLeast("CONSUMER_PREFETCH", c.ConsumerPrefetch, c.ConsumerBatchSize),
		settings.AtMost("CONSUMER_PREFETCH", c.ConsumerPrefetch, maxPrefetch),
		settings.AtLeast("CONSUMER_GIVE_UP", c.ConsumerGiveUp, time.Second),
		settings.AtLeast("DELIVERY_LIMIT", c.DeliveryLimit, 1),
		checkDelays(c.RetryDelays),
		settings.AtLeast("INBOX_RETENTION", c.InboxRetention, c.ConsumerGiveUp+outlastsGiveUp),
		settings.AtLeast("MAIL_CONNECTIONS", c.MailConnections, 1),
		settings.AtMost("MAIL_CONNECTIONS", c.MailConnections, maxConnections),
		checkMail("MAIL_FROM", c.MailFrom),
		checkMail("DEFAULT_RECIPIENT", c.DefaultRecipient),
		c.CheckRelay(c.RelayWindow),
		c.CheckPage(),
	)
	if strings.ContainsFunc(c.MailHelo, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		errs = append(errs, errors.New("MAIL_HELO must be a host name, or an address in brackets"))
	}
	if _, err := mailer.New(c.mail("somebody@example.com")); err != nil {
		errs = append(errs, fmt.Errorf("SMTP_URL: %w", err))
	}
	return errs
}

// checkWithBroker is for a command that connects to the broker.
func checkWithBroker(c config) []error { return slices.Concat(check(c), c.CheckBroker()) }

// checkAll is for the service.
func checkAll(c config) []error { return slices.Concat(checkWithBroker(c), c.checkSending()) }

// checkSending returns what would make e-mails count as sent that nobody gets, or that have a sender
// where nobody reads. In the demo that is what people want.
func (c config) checkSending() (errs []error) {
	if c.AppEnv == settings.Demo {
		return nil
	}
	if c.SMTPURL == "" {
		errs = append(errs, errors.New("SMTP_URL is not set, and no e-mail would be sent: log: says that they only go to the log"))
	}
	for name, address := range map[string]string{"MAIL_FROM": c.MailFrom, "DEFAULT_RECIPIENT": c.DefaultRecipient} {
		if mailer.Domain(address) == "example.com" {
			errs = append(errs, fmt.Errorf("%s is at example.com, where nobody reads: set your own, or APP_ENV=demo", name))
		}
	}
	return errs
}

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
	if !mailer.IsAddress(address) {
		return []error{fmt.Errorf("%s must be a plain e-mail address", name)}
	}
	return nil
}

// At the end the consumer ends first, and then the relay: 21 s, and within 25 s with the rest.
const (
	consumerShutdown = 3 * time.Second
	relayShutdown    = 18 * time.Second
)

// queue is where the consumer takes its messages.
func (c config) queue() rabbitmq.Queue {
	return rabbitmq.Queue{
		Name: service, Exchange: "outbox.events", Topics: email.Topics, Check: email.Check,
		Retry: c.RetryDelays, GiveUp: c.ConsumerGiveUp, BatchSize: c.ConsumerBatchSize, Prefetch: c.ConsumerPrefetch,
		DeliveryLimit: c.DeliveryLimit, ShutdownTimeout: consumerShutdown, FreshURL: settings.Fresh("AMQP_URL"),
	}
}

func (c config) mail(from string) mailer.Config {
	return mailer.Config{
		URL: cmp.Or(c.SMTPURL.Reveal(), "log:"), FreshURL: settings.Fresh("SMTP_URL"), From: from, Helo: c.MailHelo,
		Connections: c.MailConnections, Compose: email.Compose,
	}
}

// relay has what a mail server needs. It does not recognise an e-mail that it gets twice, so each
// answer is marked at once and on the disk, and one without an answer is sent again after long pauses.
// A domain is tried more seldom than a topic of the broker.
func (c config) relay() outbox.RelayConfig {
	r := c.RelayConfig(service, c.RelayWindow)
	r.SettleAfter, r.DurableMarks = time.Microsecond, true
	r.NoAnswerPauses = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 4 * time.Hour}
	r.LongestTopicPause, r.ShutdownTimeout = 30*time.Second, relayShutdown
	return r
}
