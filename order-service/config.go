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
	settings.Relay
	settings.Page

	// HTTPAddr is where the API listens.
	HTTPAddr string `env:"HTTP_ADDR" envDefault:"127.0.0.1:4000"`
	// OpsAddr is where /livez, /readyz, /metrics and the page are. Not for the public.
	OpsAddr string `env:"OPS_ADDR" envDefault:"127.0.0.1:4100"`
	// HTTPMaxInFlight is how many requests may be in progress; further ones are refused.
	HTTPMaxInFlight int `env:"HTTP_MAX_IN_FLIGHT" envDefault:"256"`
	// HTTPRateLimit is how many requests a client address may send in a second; 0 means any
	// number. Behind a reverse proxy every client has the proxy's address: limit them there.
	HTTPRateLimit int `env:"HTTP_RATE_LIMIT" envDefault:"0"`

	// RelayWindow is how many events of a worker may wait for their confirms. At most 5000.
	RelayWindow int `env:"RELAY_WINDOW" envDefault:"2000"`
	// RelayConfirmTimeout bounds the wait for the confirm of an event.
	RelayConfirmTimeout time.Duration `env:"RELAY_CONFIRM_TIMEOUT" envDefault:"10s"`
	// IdempotencyRetention is how long an Idempotency-Key is remembered. At least an hour.
	IdempotencyRetention time.Duration `env:"IDEMPOTENCY_RETENTION" envDefault:"24h"`
}

// maxConnections is how many clients may be connected to the API. Further ones wait until
// one disconnects. A client that sends or reads slowly holds a connection and nothing else. With
// three quarters of them open, idle ones are closed.
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
		c.CheckRelay(c.RelayWindow),
		settings.AtLeast("RELAY_CONFIRM_TIMEOUT", c.RelayConfirmTimeout, 100*time.Millisecond),
		settings.AtLeast("IDEMPOTENCY_RETENTION", c.IdempotencyRetention, time.Hour),
		c.CheckPage(),
	)
}

// checkWithBroker returns also what is wrong for a command that connects to the broker.
func checkWithBroker(c config) []error { return slices.Concat(check(c), c.CheckBroker()) }

func (c config) limits() httpapi.Limits {
	return httpapi.Limits{InFlight: c.HTTPMaxInFlight, Rate: c.HTTPRateLimit}
}

func (c config) relay() outbox.RelayConfig {
	r := c.RelayConfig(service, c.RelayWindow)
	r.ConfirmTimeout = c.RelayConfirmTimeout
	return r
}
