package outbox

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// NeverCancelCommits makes a pool leave each COMMIT to the server. Call it if the server has
// a synchronous standby: before pgxpool.NewWithConfig, and after all other changes of config, because
// who sets BeforeConnect or ConnConfig.Tracer later removes it.
//
// When a context ends, pgx closes the connection, and opens another one to cancel what runs there. A
// COMMIT that waits for a standby would then stop to wait: others see the transaction, its events
// are published, and no standby has it. With this setting, the COMMIT goes on in the server. Others
// see the transaction when a standby has it, or when the server has restarted or an operator has
// ended the wait. It is for transactions of pgx and of this library, and for those of database/sql
// and gorm if stdlib.OpenDBFromPool has made their connections. A statement without a transaction, and
// a COMMIT in one text or batch with others, are still cancelled.
// https://www.postgresql.org/docs/current/warm-standby.html#SYNCHRONOUS-REPLICATION-HA
func NeverCancelCommits(config *pgxpool.Config) {
	tracers := []pgx.QueryTracer{commitTracer{}}
	if config.ConnConfig.Tracer != nil {
		tracers = append(tracers, config.ConnConfig.Tracer)
	}
	config.ConnConfig.Tracer = multitracer.New(tracers...)
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
			if after == nil {
				return nil
			}
			return after(ctx, conn)
		}
		if before == nil {
			return nil
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
	if strings.EqualFold(query.SQL, "commit") && !conn.IsClosed() {
		setCommitting(conn, true)
	}
	return ctx
}

// TraceQueryEnd is called after each statement.
func (commitTracer) TraceQueryEnd(_ context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	if !conn.IsClosed() { // the driver has an answer
		setCommitting(conn, false)
	}
}

func setCommitting(conn *pgx.Conn, is bool) {
	if committing, ok := conn.PgConn().CustomData()[committingKey].(*atomic.Bool); ok {
		committing.Store(is)
	}
}
