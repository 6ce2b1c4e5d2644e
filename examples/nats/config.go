package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"example.com/transactional-outbox/examples/nats/publisher"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/outbox"
)

// config holds the settings, which come from environment variables.
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

	// The relay's own, as in order-service. outbox.RelayConfig describes them.
	Workers int `env:"RELAY_WORKERS" envDefault:"2" help:"each with its own publisher"`
	// Window is smaller than order-service's: a server that syncs each message takes some hundreds a
	// second, and what it does not confirm within a second counts as slow.
	Window         int           `env:"RELAY_WINDOW" envDefault:"100" help:"events of a worker that may wait for their confirms"`
	Lease          time.Duration `env:"RELAY_LEASE" envDefault:"20s" help:"how long a claim holds if it is not renewed"`
	ConfirmTimeout time.Duration `env:"RELAY_CONFIRM_TIMEOUT" envDefault:"10s" help:"how long an event waits for its confirm"`
	GiveUp         time.Duration `env:"RELAY_GIVE_UP" envDefault:"24h" help:"a refused event is failed that long after its first refusal"`
	RetryBase      time.Duration `env:"RELAY_RETRY_BASE" envDefault:"1s" help:"the first pause of a refused event; it doubles"`
	RetryCap       time.Duration `env:"RELAY_RETRY_CAP" envDefault:"5m" help:"the longest pause"`
	Retention      time.Duration `env:"OUTBOX_RETENTION" envDefault:"168h" help:"how long published events are kept"`
}

// Level is the log level.
func (c config) Level() slog.Level { return c.LogLevel }

// check returns what is wrong. outbox.NewRelay checks the settings of the relay.
func check(c config) []error {
	errs := slices.Concat(
		settings.CheckAddress("OPS_ADDR", c.OpsAddr),
		settings.AtLeast("NATS_REPLICAS", c.Replicas, 1),
		settings.AtLeast("NATS_MAX_AGE", c.MaxAge, 0),
		settings.AtLeast("NATS_DEDUPE", c.Dedupe, 0),
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

// destination is where the relay publishes.
func (c config) destination() publisher.Destination {
	return publisher.Destination{
		Config: publisher.Config{URL: c.NATSURL.Reveal(), Credentials: c.Credentials, Name: service, Subject: events},
		Stream: c.stream(), Monitoring: c.Monitoring, AllowUnsynced: c.AllowUnsynced,
	}
}

// events is the first part of the subjects.
const events = "outbox.events"

func (c config) stream() publisher.Stream {
	return publisher.Stream{Name: "OUTBOX_EVENTS", Destination: events, Replicas: c.Replicas, MaxAge: c.MaxAge, Dedupe: c.Dedupe}
}

func (c config) relay() outbox.RelayConfig {
	return outbox.RelayConfig{
		AppID: "order-service", Workers: c.Workers, Window: c.Window, Lease: c.Lease, ConfirmTimeout: c.ConfirmTimeout,
		GiveUp: c.GiveUp, RetryBase: c.RetryBase, RetryCap: c.RetryCap, Retention: c.Retention,
	}
}
