// Package source is a way into package outbox that importers of the library do not have. With it, a
// program of this repository gives a relay its events from elsewhere than the tables of its pool:
// examples/cdc from the log of PostgreSQL, and examples/simulator from a model of the tables.
package source

import (
	"context"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// Events is where a relay claims events, and where it writes what became of them. A [*store.Store]
// is the usual one, and describes the methods.
type Events interface {
	Claim(ctx context.Context, worker string, limit int, lease time.Duration) (store.Claim, error)
	ClaimProbes(ctx context.Context, worker string, limit int, lease time.Duration) (store.Claim, error)
	Settle(ctx context.Context, s store.Settlement) (store.Settled, error)
	Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) (held []uuid.UUID, err error)
}

// Package outbox sets these two. It cannot be imported here, because it imports this package.
var (
	// Replace gives a relay, which is an *outbox.Relay, another source. Call it before the relay runs.
	Replace func(relay any, events Events)
	// New makes a relay without a database. The settings are an outbox.RelayConfig. The relay
	// publishes to a destination until its context ends.
	New func(config any, events Events, to publish.Destination) (run func(context.Context) error)
)
