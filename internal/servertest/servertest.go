// Package servertest gives tests real servers.
//
// Most tests share the PostgreSQL and the RabbitMQ that `make test` finds or
// starts: [Database] creates a database for one test, [BrokerURL] returns the
// broker. A test that stops or kills a server starts a private one, with
// [Postgres] or [RabbitMQ]. A test that hurts connections puts a [Proxy] before
// its server.
//
// [PostgresServer] and [RabbitMQServer] know nothing of tests: scripts/stack runs
// the whole system on them. A server is a folder, which holds its data, log,
// ports and process. So a server that is restarted, or opened again by another
// program, is the same server.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"example.com/transactional-outbox/internal/servertest/process"
)

const (
	startTimeout = 3 * time.Minute // seconds, as a rule; a busy machine has taken more than one
	killTimeout  = 10 * time.Second
)

// awaitStart returns when the server is ready, or why it is not, with its log.
func awaitStart(ctx context.Context, server *process.Process, f folder, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := server.AwaitReady(ctx, probe); err != nil {
		return fmt.Errorf("%w; the end of %s:\n%s", err, f.log(), process.LastLines(f.log()))
	}
	return nil
}

// kill ends processes with SIGKILL and returns when they are gone.
func kill(processes ...*process.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	var errs []error
	for _, p := range processes {
		errs = append(errs, p.Signal(syscall.SIGKILL))
	}
	for _, p := range processes {
		errs = append(errs, p.Wait(ctx))
	}
	return errors.Join(errs...)
}
