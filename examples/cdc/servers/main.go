// Command servers runs a command beside its own PostgreSQL, which has wal_level=logical, and its own
// RabbitMQ. DATABASE_SERVER_URL and AMQP_URL have their addresses, as test/stack expects them. Both
// servers end with the command.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"example.com/transactional-outbox/outbox/cdc/logical"
	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

func main() {
	err := run(context.Background(), os.Args[1:])
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(max(e.ExitCode(), 1))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command []string) (err error) {
	if len(command) == 0 {
		return errors.New("usage: servers COMMAND [ARGUMENT …]")
	}
	// A signal is for the command. When that ends, the servers end.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
	folder, err := os.MkdirTemp("", "cdc-servers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := os.Chmod(folder, 0o755); err != nil { //nolint:gosec // PostgreSQL may run as another user
		return err
	}
	database, err := logical.Postgres(ctx, filepath.Join(folder, "postgres"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	broker, err := servers.NewRabbitMQ(filepath.Join(folder, "rabbitmq"), process.WithParent)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	if err := broker.Start(ctx); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // that is its purpose
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "DATABASE_SERVER_URL="+database.URL("postgres"), "AMQP_URL="+broker.URL("/"))
	return cmd.Run()
}
