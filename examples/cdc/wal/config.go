// Package wal reads committed events from the log of PostgreSQL: from a logical replication slot,
// through the plugin pgoutput, which is part of PostgreSQL.
//
// A slot has one reader. The others wait and try again each second. A killed reader loses the slot
// at once. A suspended reader loses it after [Config.Timeout]: PostgreSQL closes a connection on
// which it has received no acknowledgement for that long.
package wal

import (
	"context"
	"maps"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Config names the log to read.
type Config struct {
	URL         string // of the database
	Slot        string
	Publication string
	Timeout     time.Duration // wal_sender_timeout: how long a suspended reader keeps the slot
}

// Sink gets the events.
type Sink interface {
	// Add gets the events of one committed transaction. Its commit ends at end.
	Add(events []store.Event, end pglogrepl.LSN)
	// Reached says that no event comes before lsn.
	Reached(lsn pglogrepl.LSN)
	// Position is how far the slot may delete the log: all events before it are settled.
	Position() pglogrepl.LSN
	// Full reports whether the caller must wait for Space before it calls Add.
	Full() bool
	Space() <-chan struct{}
	// Restart forgets everything that was added.
	Restart()
}

// Reader reads a slot.
type Reader struct {
	config  Config
	sink    Sink
	metrics *Metrics
	logged  string // the last reason why it does not read
}

// NewReader returns a reader that does nothing until Run.
func NewReader(c Config, sink Sink, metrics *Metrics) *Reader {
	return &Reader{config: c, sink: sink, metrics: metrics}
}

// connect opens a connection for replication. Such a connection also takes SQL, as text.
func (c Config) connect(ctx context.Context) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(c.URL)
	if err != nil {
		return nil, err
	}
	maps.Copy(config.RuntimeParams, map[string]string{
		"replication":        "database",
		"application_name":   "cdc " + c.Slot,
		"wal_sender_timeout": milliseconds(c.Timeout),
		// A reader that ends while it creates the slot must not keep the slot busy.
		"client_connection_check_interval": "1000",
		"datestyle":                        "ISO", // of created_at, which arrives as text
		"bytea_output":                     "hex", // of payload
		"timezone":                         "UTC",
	})
	config.ConnectTimeout = connectTimeout
	return pgconn.ConnectConfig(ctx, config)
}

const connectTimeout = 5 * time.Second
