package rabbitmq

import (
	"errors"
	"sync/atomic"
)

// counters are what Stats is a copy of.
type counters struct {
	received, handled, retried, deadLettered, copyFailures atomic.Uint64
}

// Stats returns how many deliveries are done, by their outcome, and whether messages are taken now.
// The outcomes are handled, retried and dead_lettered. Package prom reports them.
func (c *Consumer) Stats() (outcomes map[string]uint64, up bool) {
	return map[string]uint64{
		"handled":       c.stats.handled.Load(),
		"retried":       c.stats.retried.Load(),
		"dead_lettered": c.stats.deadLettered.Load(),
	}, c.Health() == nil
}

// Received returns how many messages were delivered, also those that are not done.
func (c *Consumer) Received() uint64 { return c.stats.received.Load() }

// CopyFailures returns how many attempts at a copy have failed. They are repeated.
func (c *Consumer) CopyFailures() uint64 { return c.stats.copyFailures.Load() }

const aSession = "a session with the broker"

func (c *Consumer) waitFor(what string) { c.waiting.Store(&what) }

// Health returns nil while messages are taken. Otherwise its error says what the consumer waits
// for.
func (c *Consumer) Health() error {
	if what := *c.waiting.Load(); what != "" {
		return errors.New("waiting for " + what)
	}
	return nil
}
