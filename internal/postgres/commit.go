package postgres

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// neverCancelCommits makes the driver ask for no cancellation of a COMMIT. When a context ends, the
// driver closes the connection, and opens another one to cancel what runs there. A COMMIT that
// waits for a synchronous standby would then stop to wait: others see the transaction, its events
// are published, and no standby has it. Now the COMMIT goes on in the server, and nobody sees the
// transaction before a standby has it.
// https://www.postgresql.org/docs/current/warm-standby.html#SYNCHRONOUS-REPLICATION-HA
func neverCancelCommits(config *pgxpool.Config) {
	config.ConnConfig.Tracer = multitracer.New(config.ConnConfig.Tracer, commitTracer{})
	before := config.BeforeConnect
	config.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		committing := &atomic.Bool{} // of this connection: c is its own copy
		dial, after := c.DialFunc, c.AfterConnect
		c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			if committing.Load() {
				return nil, errCommitting
			}
			return dial(ctx, network, address)
		}
		c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
			conn.CustomData()[committingKey] = committing
			return after(ctx, conn)
		}
		return before(ctx, c)
	}
}

const committingKey = "committing"

var errCommitting = errors.New("a COMMIT is not cancelled")

// commitTracer notes which connections have sent COMMIT and have no answer.
type commitTracer struct{}

// TraceQueryStart is called before each statement.
func (commitTracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	if query.SQL == "commit" { // as pgx.Tx sends it
		committing(conn).Store(true)
	}
	return ctx
}

// TraceQueryEnd is called after each statement.
func (commitTracer) TraceQueryEnd(_ context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	if !conn.IsClosed() { // the driver has an answer
		committing(conn).Store(false)
	}
}

func committing(conn *pgx.Conn) *atomic.Bool {
	return conn.PgConn().CustomData()[committingKey].(*atomic.Bool)
}
