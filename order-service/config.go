package main

import (
	"fmt"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/order-service/internal/httpapi"
	"example.com/transactional-outbox/outbox"
)

// config holds the settings, which come from environment variables.
type config struct {
	settings.Shared

	// HTTPAddr is where the API listens.
	HTTPAddr string `env:"HTTP_ADDR" envDefault:"127.0.0.1:4000"`
	// OpsAddr is where /livez, /readyz and /metrics are. Not for the public.
	OpsAddr string `env:"OPS_ADDR" envDefault:"127.0.0.1:4100"`
	// HTTPMaxInFlight is how many requests may be in progress; further ones are refused.
	HTTPMaxInFlight int `env:"HTTP_MAX_IN_FLIGHT" envDefault:"256"`
	// HTTPRateLimit is how many requests a client address may send in a second; 0 means any
	// number. Behind a reverse proxy every client has the proxy's address: limit them there.
	HTTPRateLimit int `env:"HTTP_RATE_LIMIT" envDefault:"0"`

	// RelayWorkers is how many workers publish in parallel, each on its own channel.
	RelayWorkers int `env:"RELAY_WORKERS" envDefault:"2"`
	// RelayBatchSize is how many events one claim takes at most. If they are large, it takes
	// fewer: about 8 MiB together. At most 5000.
	RelayBatchSize int `env:"RELAY_BATCH_SIZE" envDefault:"1000"`
	// OutboxNotify wakes the relays of other processes by PostgreSQL's LISTEN and NOTIFY. If it
	// is off, their poll finds the events. LISTEN does not work through PgBouncer.
	OutboxNotify bool `env:"OUTBOX_NOTIFY" envDefault:"true"`
	// RelayPollInterval is how often the relay looks for events, even if nothing wakes it.
	RelayPollInterval time.Duration `env:"RELAY_POLL_INTERVAL" envDefault:"1s"`
	// RelayLease is how long a claim is valid. After a crash, its events are published that
	// much later. At least three times RELAY_CONFIRM_TIMEOUT, at most an hour.
	RelayLease time.Duration `env:"RELAY_LEASE" envDefault:"60s"`
	// RelayConfirmTimeout bounds the wait for all confirms of a batch.
	RelayConfirmTimeout time.Duration `env:"RELAY_CONFIRM_TIMEOUT" envDefault:"10s"`
	// RelayMaxAttempts is how many times a queue may refuse an event before it is failed.
	RelayMaxAttempts int `env:"RELAY_MAX_ATTEMPTS" envDefault:"20"`
	// RelayRetryBase is the first back-off of a refused event. It doubles each time.
	RelayRetryBase time.Duration `env:"RELAY_RETRY_BASE" envDefault:"1s"`
	// RelayRetryCap is the longest back-off.
	RelayRetryCap time.Duration `env:"RELAY_RETRY_CAP" envDefault:"15m"`
	// OutboxRetention is how long published and discarded events are kept. Within this time
	// they can be published again, to a broker that lost its disk. At least an hour.
	OutboxRetention time.Duration `env:"OUTBOX_RETENTION" envDefault:"168h"`
	// IdempotencyRetention is how long an Idempotency-Key is remembered. At least an hour.
	IdempotencyRetention time.Duration `env:"IDEMPOTENCY_RETENTION" envDefault:"24h"`
}

// maxWorkers is more than anybody needs: each worker uses a connection to the database.
const maxWorkers = 1000

// maxBatchSize keeps a claim, and the statement that marks it, well within their
// deadlines. A batch of more than a thousand events is hardly faster.
const maxBatchSize = 5000

// maxLease is also how long the events of a relay that died may wait.
const maxLease = time.Hour

// maxConnections is how many clients may be connected to the API. Further ones wait until
// one disconnects. A client that sends or reads slowly holds a connection and nothing else.
const maxConnections = 1024

// check returns everything that is wrong.
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

// checkWithBroker returns also what is wrong for a command that connects to the broker.
func checkWithBroker(c config) []error { return slices.Concat(check(c), c.CheckBroker()) }

func (c config) limits() httpapi.Limits {
	return httpapi.Limits{InFlight: c.HTTPMaxInFlight, Rate: c.HTTPRateLimit}
}

func (c config) relay() outbox.RelayConfig {
	return outbox.RelayConfig{
		AppID: service, DeadLetters: deadLetterExchange,
		Workers: c.RelayWorkers, BatchSize: c.RelayBatchSize, PollInterval: c.RelayPollInterval,
		Lease: c.RelayLease, ConfirmTimeout: c.RelayConfirmTimeout,
		MaxAttempts: c.RelayMaxAttempts, RetryBase: c.RelayRetryBase, RetryCap: c.RelayRetryCap,
		Retention: c.OutboxRetention, NoListen: !c.OutboxNotify,
	}
}
