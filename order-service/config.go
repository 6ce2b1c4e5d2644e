package main

import (
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
	// RelayWindow is how many events of a worker may wait for their confirms. At most 5000.
	RelayWindow int `env:"RELAY_WINDOW" envDefault:"2000"`
	// OutboxNotify wakes the relays of other processes by PostgreSQL's LISTEN and NOTIFY. If it
	// is off, their poll finds the events. LISTEN does not work through PgBouncer.
	OutboxNotify bool `env:"OUTBOX_NOTIFY" envDefault:"true"`
	// RelayPollInterval is how often the relay looks for events, even if nothing wakes it.
	RelayPollInterval time.Duration `env:"RELAY_POLL_INTERVAL" envDefault:"1s"`
	// RelayLease is how long a claim is valid without being renewed. After a crash, its events are
	// published that much later. It is renewed each second. At least three seconds, at most an hour.
	RelayLease time.Duration `env:"RELAY_LEASE" envDefault:"20s"`
	// RelayConfirmTimeout bounds the wait for the confirm of an event.
	RelayConfirmTimeout time.Duration `env:"RELAY_CONFIRM_TIMEOUT" envDefault:"10s"`
	// RelayGiveUp is when a refused event is failed: that long after it was refused first, and
	// after ten times at least.
	RelayGiveUp time.Duration `env:"RELAY_GIVE_UP" envDefault:"24h"`
	// RelayRetryBase is the first back-off of a refused event. It doubles each time.
	RelayRetryBase time.Duration `env:"RELAY_RETRY_BASE" envDefault:"1s"`
	// RelayRetryCap is the longest back-off.
	RelayRetryCap time.Duration `env:"RELAY_RETRY_CAP" envDefault:"5m"`
	// OutboxRetention is how long published and discarded events are kept. Within this time
	// they can be published again, to a broker that lost its disk. At least an hour.
	OutboxRetention time.Duration `env:"OUTBOX_RETENTION" envDefault:"168h"`
	// IdempotencyRetention is how long an Idempotency-Key is remembered. At least an hour.
	IdempotencyRetention time.Duration `env:"IDEMPOTENCY_RETENTION" envDefault:"24h"`
}

// maxWorkers is more than anybody needs: each worker uses a connection to the database.
const maxWorkers = 1000

// maxWindow keeps a claim, and the statement that marks it, well within their deadlines.
const maxWindow = 5000

// minLease is three renewals of a lease.
const minLease = 3 * time.Second

// maxLease is also how long the events of a relay that died may wait.
const maxLease = time.Hour

// maxConnections is how many clients may be connected to the API. Further ones wait until
// one disconnects. A client that sends or reads slowly holds a connection and nothing else.
const maxConnections = 1024

// check returns everything that is wrong.
func check(c config) []error {
	return slices.Concat(
		c.Check(),
		settings.CheckAddress("HTTP_ADDR", c.HTTPAddr),
		settings.CheckAddress("OPS_ADDR", c.OpsAddr),
		settings.AtLeast("HTTP_MAX_IN_FLIGHT", c.HTTPMaxInFlight, 1),
		settings.AtMost("HTTP_MAX_IN_FLIGHT", c.HTTPMaxInFlight, maxConnections),
		settings.AtLeast("HTTP_RATE_LIMIT", c.HTTPRateLimit, 0),
		settings.AtLeast("RELAY_WORKERS", c.RelayWorkers, 1),
		settings.AtMost("RELAY_WORKERS", c.RelayWorkers, maxWorkers),
		settings.AtLeast("RELAY_WINDOW", c.RelayWindow, 1),
		settings.AtMost("RELAY_WINDOW", c.RelayWindow, maxWindow),
		settings.AtLeast("RELAY_LEASE", c.RelayLease, minLease),
		settings.AtMost("RELAY_LEASE", c.RelayLease, maxLease),
		settings.AtLeast("RELAY_POLL_INTERVAL", c.RelayPollInterval, 10*time.Millisecond),
		settings.AtLeast("RELAY_CONFIRM_TIMEOUT", c.RelayConfirmTimeout, 100*time.Millisecond),
		settings.AtLeast("RELAY_GIVE_UP", c.RelayGiveUp, time.Second),
		settings.AtLeast("RELAY_RETRY_BASE", c.RelayRetryBase, time.Millisecond),
		settings.AtLeast("RELAY_RETRY_CAP", c.RelayRetryCap, c.RelayRetryBase),
		settings.AtLeast("OUTBOX_RETENTION", c.OutboxRetention, time.Hour),
		settings.AtLeast("IDEMPOTENCY_RETENTION", c.IdempotencyRetention, time.Hour),
	)
}

// checkWithBroker returns also what is wrong for a command that connects to the broker.
func checkWithBroker(c config) []error { return slices.Concat(check(c), c.CheckBroker()) }

func (c config) limits() httpapi.Limits {
	return httpapi.Limits{InFlight: c.HTTPMaxInFlight, Rate: c.HTTPRateLimit}
}

func (c config) relay() outbox.RelayConfig {
	return outbox.RelayConfig{
		AppID: service, DeadLetters: deadLetterExchange,
		Workers: c.RelayWorkers, Window: c.RelayWindow, PollInterval: c.RelayPollInterval,
		Lease: c.RelayLease, ConfirmTimeout: c.RelayConfirmTimeout,
		GiveUp: c.RelayGiveUp, RetryBase: c.RelayRetryBase, RetryCap: c.RelayRetryCap,
		Retention: c.OutboxRetention, NoListen: !c.OutboxNotify,
	}
}
