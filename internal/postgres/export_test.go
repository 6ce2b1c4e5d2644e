package postgres

import (
	"context"
	"net"

	"github.com/jackc/pgx/v5"
)

// LookupAfter returns the addresses of a host in the order in which they are tried, when the newest
// connection is to last.
func LookupAfter(ctx context.Context, c pgx.ConnConfig, last, host string) ([]string, error) {
	h := &hosts{last: last, addresses: map[string][]string{}}
	h.watchLookups(&c)
	return c.LookupFunc(ctx, host)
}

// OnSocket calls use with the socket of one connection.
func (db *DB) OnSocket(ctx context.Context, use func(fd uintptr)) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	raw, err := conn.Conn().PgConn().Conn().(socket).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(use)
}
