package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/order-service/nats/publisher"
)

// config holds the settings, which come from environment variables. Those of the relay are the same
// as order-service's.
type config struct {
	DatabaseURL settings.Secret `env:"DATABASE_URL,required,notEmpty" help:"the database of order-service"`
	NATSURL     settings.Secret `env:"NATS_URL,required,notEmpty" help:"nats://user:password@host:port, several with commas between them"`
	Credentials string          `env:"NATS_CREDENTIALS" help:"path of a .creds file"`
	// Monitoring has all servers that may lead the streams.
	Monitoring    []string      `env:"NATS_MONITORING_URLS" help:"http://host:8222 of each server; the relay checks there that it syncs each message"`
	AllowUnsynced bool          `env:"NATS_ALLOW_UNSYNCED" help:"true: publish also if a power failure may lose confirmed messages"`
	Replicas      int           `env:"NATS_REPLICAS" envDefault:"1" help:"of each stream that the relay creates"`
	MaxAge        time.Duration `env:"NATS_MAX_AGE" envDefault:"720h" help:"how long a stream that the relay creates keeps messages; 0: for ever"`
	Dedupe        time.Duration `env:"NATS_DEDUPE" envDefault:"2m" help:"how long such a stream remembers message ids"`

	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"info" help:"debug, info, warn, error"`
	OpsAddr  string     `env:"OPS_ADDR" envDefault:"127.0.0.1:4110" help:"/livez, /readyz, /metrics"`

	Workers int `env:"RELAY_WORKERS" envDefault:"2" help:"each with its own publisher"`
	// BatchSize is smaller than order-service's: a server that syncs each message takes some hundreds
	// a second, and a batch must be confirmed within ConfirmTimeout.
	BatchSize      int           `env:"RELAY_BATCH_SIZE" envDefault:"100" help:"events of one claim"`
	PollInterval   time.Duration `env:"RELAY_POLL_INTERVAL" envDefault:"1s" help:"how often it looks for events without a wake-up"`
	Lease          time.Duration `env:"RELAY_LEASE" envDefault:"60s" help:"how long a claim holds"`
	ConfirmTimeout time.Duration `env:"RELAY_CONFIRM_TIMEOUT" envDefault:"10s" help:"how long a batch waits for its confirms"`
	MaxAttempts    int           `env:"RELAY_MAX_ATTEMPTS" envDefault:"20" help:"refusals before an event is failed"`
	RetryBase      time.Duration `env:"RELAY_RETRY_BASE" envDefault:"1s" help:"the first back-off of a refused event"`
	RetryCap       time.Duration `env:"RELAY_RETRY_CAP" envDefault:"15m" help:"the longest back-off"`
	Retention      time.Duration `env:"OUTBOX_RETENTION" envDefault:"168h" help:"how long published events are kept"`
}

// Level is the log level.
func (c config) Level() slog.Level { return c.LogLevel }

const maxBatchSize = 5000

// check returns everything that is wrong.
func check(c config) []error {
	errs := slices.Concat(
		settings.CheckAddress("OPS_ADDR", c.OpsAddr),
		settings.AtLeast("NATS_REPLICAS", c.Replicas, 1),
		settings.AtLeast("NATS_MAX_AGE", c.MaxAge, 0),
		settings.AtLeast("NATS_DEDUPE", c.Dedupe, 0),
		settings.AtLeast("RELAY_WORKERS", c.Workers, 1),
		settings.AtLeast("RELAY_BATCH_SIZE", c.BatchSize, 1),
		settings.AtMost("RELAY_BATCH_SIZE", c.BatchSize, maxBatchSize),
		settings.AtLeast("RELAY_POLL_INTERVAL", c.PollInterval, 10*time.Millisecond),
		settings.AtLeast("RELAY_CONFIRM_TIMEOUT", c.ConfirmTimeout, 100*time.Millisecond),
		settings.AtLeast("RELAY_LEASE", c.Lease, 3*c.ConfirmTimeout),
		settings.AtLeast("RELAY_MAX_ATTEMPTS", c.MaxAttempts, 1),
		settings.AtLeast("RELAY_RETRY_BASE", c.RetryBase, time.Millisecond),
		settings.AtLeast("RELAY_RETRY_CAP", c.RetryCap, c.RetryBase),
		settings.AtLeast("OUTBOX_RETENTION", c.Retention, time.Hour),
	)
	if len(c.Monitoring) == 0 && !c.AllowUnsynced {
		errs = append(errs, errors.New("NATS_MONITORING_URLS is not set: the relay checks there that the servers sync each message "+
			"(sync_interval: always). Set it, or NATS_ALLOW_UNSYNCED=true if a power failure may lose confirmed messages"))
	}
	for _, address := range c.Monitoring {
		if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("NATS_MONITORING_URLS must be URLs that start with http://; %q is not", address))
		}
	}
	return errs
}

func (c config) connection() publisher.Config {
	return publisher.Config{URL: c.NATSURL.Reveal(), Credentials: c.Credentials, Name: service}
}

// The destinations, and the streams that keep what is published to them.
const (
	events      = "outbox.events"
	deadLetters = "order-service.dlq"
)

func (c config) streams() []publisher.Stream {
	stream := publisher.Stream{Replicas: c.Replicas, MaxAge: c.MaxAge, Dedupe: c.Dedupe}
	forEvents, forDeadLetters := stream, stream
	forEvents.Name, forEvents.Destination = "OUTBOX_EVENTS", events
	forDeadLetters.Name, forDeadLetters.Destination, forDeadLetters.MaxAge = "ORDER_SERVICE_DLQ", deadLetters, 0
	return []publisher.Stream{forEvents, forDeadLetters}
}

func (c config) relay() relay.Config {
	return relay.Config{
		System: "nats", Destination: events, DeadLetters: deadLetters, AppID: "order-service",
		Workers: c.Workers, BatchSize: c.BatchSize, PollInterval: c.PollInterval,
		Lease: c.Lease, ConfirmTimeout: c.ConfirmTimeout,
		MaxAttempts: c.MaxAttempts, RetryBase: c.RetryBase, RetryCap: c.RetryCap,
	}
}
