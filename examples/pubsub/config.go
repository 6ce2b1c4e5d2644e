package main

import (
	"log/slog"
	"slices"
	"time"

	"example.com/transactional-outbox/examples/pubsub/googlepubsub"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/outbox"
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
	// LookEvery is how often the relay looks whether the topic has a subscription. With 0 it
	// looks before each batch.
	LookEvery time.Duration `env:"PUBSUB_LOOK_EVERY" envDefault:"10s"`

	// The relay's own. outbox.RelayConfig describes them.
	RelayWorkers        int           `env:"RELAY_WORKERS" envDefault:"2"`
	RelayWindow         int           `env:"RELAY_WINDOW" envDefault:"2000"`
	RelayLease          time.Duration `env:"RELAY_LEASE" envDefault:"20s"`
	RelayConfirmTimeout time.Duration `env:"RELAY_CONFIRM_TIMEOUT" envDefault:"10s"`
	RelayGiveUp         time.Duration `env:"RELAY_GIVE_UP" envDefault:"24h"`
	RelayRetryBase      time.Duration `env:"RELAY_RETRY_BASE" envDefault:"1s"`
	RelayRetryCap       time.Duration `env:"RELAY_RETRY_CAP" envDefault:"5m"`
	OutboxRetention     time.Duration `env:"OUTBOX_RETENTION" envDefault:"168h"`
}

// Level is the log level.
func (c config) Level() slog.Level { return c.LogLevel }

// check returns what is wrong. outbox.NewRelay checks the settings of the relay.
func check(c config) []error {
	errs := slices.Concat(
		settings.CheckAddress("OPS_ADDR", c.OpsAddr),
		settings.AtLeast("PUBSUB_LOOK_EVERY", c.LookEvery, 0),
	)
	if c.EmulatorHost != "" {
		errs = append(errs, settings.CheckAddress("PUBSUB_EMULATOR_HOST", c.EmulatorHost)...)
	}
	return errs
}

// destination is where the relay publishes.
func (c config) destination() googlepubsub.Config {
	return googlepubsub.Config{
		Project: c.Project, Topics: []string{c.Topic}, LookEvery: c.LookEvery,
	}
}

func (c config) relay() outbox.RelayConfig {
	return outbox.RelayConfig{
		AppID: "order-service", Workers: c.RelayWorkers, Window: c.RelayWindow, Lease: c.RelayLease, ConfirmTimeout: c.RelayConfirmTimeout,
		GiveUp: c.RelayGiveUp, RetryBase: c.RelayRetryBase, RetryCap: c.RelayRetryCap, Retention: c.OutboxRetention,
	}
}
