package postgres

import (
	"context"
	"net"
)

// Acquired is how many connections are in use.
func (db *DB) Acquired() int { return int(db.pool.Stat().AcquiredConns()) }

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
