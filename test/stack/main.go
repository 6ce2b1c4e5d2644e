// Command stack runs the whole system as processes, on a machine without Docker.
//
// It uses a PostgreSQL and a RabbitMQ that are running. Otherwise it starts private ones from the
// installed programs, in .stack/, or installs them first. The processes that it starts keep
// running. .stack/state.json lists them, so that `down` stops them and nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2) // the help has been printed
	case errors.Is(err, errNotStarted):
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(2) // nothing was tried
	case err != nil:
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		printUsage(stderr)
		return flag.ErrHelp
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		printUsage(stdout)
		return nil
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.start(ctx, args[1:], stdout, stderr)
		}
	}
	return fmt.Errorf("there is no command %q; see `scripts/stack help`", args[0])
}
