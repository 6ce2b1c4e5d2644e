package main

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/cdc/wal"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// config holds the settings, which come from environment variables. Those that begin with RELAY_
// and OUTBOX_ are the same as order-service's.
type config struct {
	settings.Shared

	// OpsAddr is where /livez, /readyz and /metrics are. Not for the public.
	OpsAddr string `env:"OPS_ADDR" envDefault:"127.0.0.1:4105"`

	// Slot is the replication slot. Of all processes with the same slot, one reads and the others
	// are standbys.
	Slot string `env:"CDC_SLOT" envDefault:"order_service_cdc"`
	// Publication is what the slot sends: the INSERTs on outbox_events.
	Publication string `env:"CDC_PUBLICATION" envDefault:"order_service_cdc"`
	// Timeout is how long a reader that is suspended keeps the slot. At least 2 s.
	Timeout time.Duration `env:"CDC_TIMEOUT" envDefault:"10s"`
	// MaxWAL is how many MiB of the log the slot may hold. Above that, the reader leaves the events
	// to the poll of the table, and PostgreSQL may delete the log. Set it below
	// max_slot_wal_keep_size.
	MaxWAL int `env:"CDC_MAX_WAL" envDefault:"1024"`

	// RelayWindow is how many events may wait for their answers.
	RelayWindow int `env:"RELAY_WINDOW" envDefault:"2000"`
	// RelayPollInterval is how often the relay looks into the table for events that the log did not
	// bring: refused ones, and those that have been due for at least this long.
	RelayPollInterval   time.Duration `env:"RELAY_POLL_INTERVAL" envDefault:"1s"`
	RelayLease          time.Duration `env:"RELAY_LEASE" envDefault:"20s"`
	RelayConfirmTimeout time.Duration `env:"RELAY_CONFIRM_TIMEOUT" envDefault:"10s"`
	RelayGiveUp         time.Duration `env:"RELAY_GIVE_UP" envDefault:"24h"`
	RelayRetryBase      time.Duration `env:"RELAY_RETRY_BASE" envDefault:"1s"`
	RelayRetryCap       time.Duration `env:"RELAY_RETRY_CAP" envDefault:"5m"`
	OutboxRetention     time.Duration `env:"OUTBOX_RETENTION" envDefault:"168h"`
}

// slotName is what PostgreSQL allows.
var slotName = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

// check returns what is wrong. outbox.NewRelay checks the settings of the relay.
func check(c config) []error {
	errs := slices.Concat(
		c.Check(),
		settings.CheckAddress("OPS_ADDR", c.OpsAddr),
		settings.AtLeast("CDC_TIMEOUT", c.Timeout, 2*time.Second),
		settings.AtLeast("CDC_MAX_WAL", c.MaxWAL, 1),
	)
	if !slotName.MatchString(c.Slot) {
		errs = append(errs, fmt.Errorf("CDC_SLOT must have lower case letters, digits and underscores only"))
	}
	return errs
}

func (c config) wal() wal.Config {
	return wal.Config{URL: c.DatabaseURL.Reveal(), Slot: c.Slot, Publication: c.Publication, Timeout: c.Timeout}
}

// broker has the names and the topology of order-service. RabbitMQ refuses a declaration that differs
// from an existing one.
func (c config) broker() *rabbitmq.Broker {
	broker := rabbitmq.NewBroker(c.AMQPURL.Reveal(), exchange)
	broker.ConnectionName, broker.Topology = "cdc relay", topology
	return broker
}

// relay has one worker: the feed is for one. It needs no notifications.
func (c config) relay() outbox.RelayConfig {
	return outbox.RelayConfig{
		AppID: service, DeadLetters: deadLetterExchange,
		Workers: 1, Window: c.RelayWindow, PollInterval: c.RelayPollInterval,
		Lease: c.RelayLease, ConfirmTimeout: c.RelayConfirmTimeout,
		GiveUp: c.RelayGiveUp, RetryBase: c.RelayRetryBase, RetryCap: c.RelayRetryCap,
		Retention: c.OutboxRetention, NoListen: true,
	}
}
