package main

import (
	"fmt"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/order-service/internal/httpapi"
	"example.com/transactional-outbox/order-service/internal/relay"
)

// config is everything that can be set, by environment variables.
type config struct {
	settings.Shared

	// HTTPAddr is where the API listens.
	HTTPAddr string `env:"HTTP_ADDR" envDefault:"127.0.0.1:4000"`
	// OpsAddr is where /livez, /readyz and /metrics are. Not for the public.
	OpsAddr string `env:"OPS_ADDR" envDefault:"127.0.0.1:4100"`
	// HTTPMaxInFlight is how many requests may be at work; the next is refused at once.
	HTTPMaxInFlight int `env:"HTTP_MAX_IN_FLIGHT" envDefault:"256"`
	// HTTPRateLimit is how many requests one client address may send in a second; 0: any
	// number. Behind a reverse proxy every client has the proxy's address: limit there.
	HTTPRateLimit int `env:"HTTP_RATE_LIMIT" envDefault:"0"`

	// RelayWorkers publish side by side, each on its own channel.
	RelayWorkers int `env:"RELAY_WORKERS" envDefault:"2"`
	// RelayBatchSize is how many events one claim takes at most. It takes fewer when they
	// are large: about 8 MiB together. At most 5000.
	RelayBatchSize int `env:"RELAY_BATCH_SIZE" envDefault:"500"`
	// RelayPollInterval is the safety net below the wake-up after each commit.
	RelayPollInterval time.Duration `env:"RELAY_POLL_INTERVAL" envDefault:"1s"`
	// RelayLease is how long a claim holds: after a crash, its events are published
	// that much later. At least three times RELAY_CONFIRM_TIMEOUT, at most an hour.
	RelayLease time.Duration `env:"RELAY_LEASE" envDefault:"60s"`
	// RelayConfirmTimeout is for all confirms of a batch together.
	RelayConfirmTimeout time.Duration `env:"RELAY_CONFIRM_TIMEOUT" envDefault:"10s"`
	// RelayMaxAttempts is how often a queue may refuse an event until it is failed.
	RelayMaxAttempts int `env:"RELAY_MAX_ATTEMPTS" envDefault:"20"`
	// RelayRetryBase is the first back-off of a refused event; it doubles.
	RelayRetryBase time.Duration `env:"RELAY_RETRY_BASE" envDefault:"1s"`
	// RelayRetryCap is the longest back-off.
	RelayRetryCap time.Duration `env:"RELAY_RETRY_CAP" envDefault:"15m"`
	// OutboxRetention is how long published and discarded events are kept: the time
	// in which a broker that lost its disk can be given them again. At least an hour.
	OutboxRetention time.Duration `env:"OUTBOX_RETENTION" envDefault:"168h"`
	// IdempotencyRetention is how long an Idempotency-Key is remembered. At least an hour.
	IdempotencyRetention time.Duration `env:"IDEMPOTENCY_RETENTION" envDefault:"24h"`
}

// maxWorkers is far beyond use: each worker needs a connection to the database.
const maxWorkers = 1000

// maxBatchSize keeps one claim, and the statement that marks it, well within their
// deadlines. Beyond a few hundred events a larger batch is no faster.
const maxBatchSize = 5000

// maxLease: what a relay that died had in hand waits for as long.
const maxLease = time.Hour

// maxConnections is how many clients may be connected to the API; the next waits until one
// leaves. Those that send or read slowly hold a connection, and nothing else.
const maxConnections = 1024

// check returns what is wrong, all of it.
func check(c config) []error {
	errs := slices.Concat(
		c.Check(),
		settings.CheckAddress("HTTP_ADDR", c.HTTPAddr),
		settings.CheckAddress("OPS_ADDR", c.OpsAddr),
		settings.AtLeast("HTTP_MAX_IN_FLIGHT", c.HTTPMaxInFlight, 1),
		settings.AtMost("HTTP_MAX_IN_FLIGHT", c.HTTPMaxInFlight, maxConnections),
		settings.AtLeast("HTTP_RATE_LIMIT", c.HTTPRateLimit, 0),
		settings.AtLeast("RELAY_WORKERS", c.RelayWorkers, 1),
		settings.AtMost("RELAY_WORKERS", c.RelayWorkers, maxWorkers),
		settings.AtLeast("RELAY_BATCH_SIZE", c.RelayBatchSize, 1),
		settings.AtMost("RELAY_BATCH_SIZE", c.RelayBatchSize, maxBatchSize),
		settings.AtMost("RELAY_LEASE", c.RelayLease, maxLease),
		settings.AtLeast("RELAY_POLL_INTERVAL", c.RelayPollInterval, 10*time.Millisecond),
		settings.AtLeast("RELAY_CONFIRM_TIMEOUT", c.RelayConfirmTimeout, 100*time.Millisecond),
		settings.AtLeast("RELAY_MAX_ATTEMPTS", c.RelayMaxAttempts, 1),
		settings.AtLeast("RELAY_RETRY_BASE", c.RelayRetryBase, time.Millisecond),
		settings.AtLeast("RELAY_RETRY_CAP", c.RelayRetryCap, c.RelayRetryBase),
		settings.AtLeast("OUTBOX_RETENTION", c.OutboxRetention, time.Hour),
		settings.AtLeast("IDEMPOTENCY_RETENTION", c.IdempotencyRetention, time.Hour),
	)
	if c.RelayLease < 3*c.RelayConfirmTimeout {
		errs = append(errs, fmt.Errorf("RELAY_LEASE must be at least three times RELAY_CONFIRM_TIMEOUT (%s)", c.RelayConfirmTimeout))
	}
	return errs
}

func (c config) limits() httpapi.Limits {
	return httpapi.Limits{InFlight: c.HTTPMaxInFlight, Rate: c.HTTPRateLimit}
}

func (c config) relay() relay.Config {
	return relay.Config{
		Exchange: exchange, DeadLetters: deadLetterExchange, AppID: service,
		Workers: c.RelayWorkers, BatchSize: c.RelayBatchSize, PollInterval: c.RelayPollInterval,
		Lease: c.RelayLease, ConfirmTimeout: c.RelayConfirmTimeout,
		MaxAttempts: c.RelayMaxAttempts, RetryBase: c.RelayRetryBase, RetryCap: c.RelayRetryCap,
	}
}
