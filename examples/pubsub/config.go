package main

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/order-service/internal/relay"
)

// config holds the settings, which come from environment variables. Settings with the name of one
// of order-service mean the same.
type config struct {
	// DatabaseURL is order-service's database.
	DatabaseURL settings.Secret `env:"DATABASE_URL,required,notEmpty"`
	// LogLevel is debug, info, warn or error.
	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"info"`
	// OpsAddr is where /livez, /readyz and /metrics are. Not for the public.
	OpsAddr string `env:"OPS_ADDR" envDefault:"127.0.0.1:4100"`

	// Project is the Google Cloud project that has the topics.
	Project string `env:"PUBSUB_PROJECT_ID,required,notEmpty"`
	// EmulatorHost is host:port of an emulator. The client library reads it, too.
	EmulatorHost string `env:"PUBSUB_EMULATOR_HOST"`
	// Topic gets the events.
	Topic string `env:"PUBSUB_TOPIC" envDefault:"order-events"`
	// DeadLetterTopic gets copies of the failed events.
	DeadLetterTopic string `env:"PUBSUB_DEAD_LETTER_TOPIC" envDefault:"order-events-failed"`
	// LookEvery is how often the relay looks whether the topic has a subscription. With 0 it
	// looks before each batch.
	LookEvery time.Duration `env:"PUBSUB_LOOK_EVERY" envDefault:"10s"`

	RelayWorkers        int           `env:"RELAY_WORKERS" envDefault:"2"`
	RelayBatchSize      int           `env:"RELAY_BATCH_SIZE" envDefault:"500"`
	RelayPollInterval   time.Duration `env:"RELAY_POLL_INTERVAL" envDefault:"1s"`
	RelayLease          time.Duration `env:"RELAY_LEASE" envDefault:"60s"`
	RelayConfirmTimeout time.Duration `env:"RELAY_CONFIRM_TIMEOUT" envDefault:"10s"`
	RelayMaxAttempts    int           `env:"RELAY_MAX_ATTEMPTS" envDefault:"20"`
	RelayRetryBase      time.Duration `env:"RELAY_RETRY_BASE" envDefault:"1s"`
	RelayRetryCap       time.Duration `env:"RELAY_RETRY_CAP" envDefault:"15m"`
	OutboxRetention     time.Duration `env:"OUTBOX_RETENTION" envDefault:"168h"`
}

// Level is the log level.
func (c config) Level() slog.Level { return c.LogLevel }

// The most that a setting may be, as in order-service.
const (
	maxWorkers   = 1000
	maxBatchSize = 5000
	maxLease     = time.Hour
)

// check returns everything that is wrong.
func check(c config) []error {
	errs := slices.Concat(
		settings.CheckAddress("OPS_ADDR", c.OpsAddr),
		settings.AtLeast("PUBSUB_LOOK_EVERY", c.LookEvery, 0),
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
	)
	if c.EmulatorHost != "" {
		errs = append(errs, settings.CheckAddress("PUBSUB_EMULATOR_HOST", c.EmulatorHost)...)
	}
	if c.RelayLease < 3*c.RelayConfirmTimeout {
		errs = append(errs, fmt.Errorf("RELAY_LEASE must be at least three times RELAY_CONFIRM_TIMEOUT (%s)", c.RelayConfirmTimeout))
	}
	return errs
}

func (c config) relay() relay.Config {
	return relay.Config{
		System: "gcp_pubsub", Destination: c.Topic, DeadLetters: c.DeadLetterTopic, AppID: "order-service",
		Workers: c.RelayWorkers, BatchSize: c.RelayBatchSize, PollInterval: c.RelayPollInterval,
		Lease: c.RelayLease, ConfirmTimeout: c.RelayConfirmTimeout,
		MaxAttempts: c.RelayMaxAttempts, RetryBase: c.RelayRetryBase, RetryCap: c.RelayRetryCap,
	}
}
