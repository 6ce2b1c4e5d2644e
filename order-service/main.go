// Command order-service takes orders and tells the world about them: an HTTP API
// that commits each order with its event, and a relay that publishes the events.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
)

const service = "order-service"

const usage = `Usage: order-service [command]

  serve        the API and the relay (the default)
  api          the API alone
  relay        the relay alone
  migrate      bring the database's schema up to date
  healthcheck  exit 0 when the service on OPS_ADDR is ready
  help         this text

Settings are environment variables; the README has the list. DATABASE_URL and
AMQP_URL have no default.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() {
		stop() // a second signal ends the process at once
		time.AfterFunc(maxDrain, giveUp)
	})
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "order-service: %v\n", err)
		os.Exit(1) //nolint:gocritic // nothing is left to defer to
	}
}

// maxDrain is how long the process may take to end. Whatever then still holds it
// up, the leases and the broker's acknowledgements make it safe to leave.
const maxDrain = 25 * time.Second

func giveUp() {
	slog.Error("the drain took too long, leaving", "after", maxDrain.String())
	os.Exit(1)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(service, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	if err := flags.Parse(args); err == flag.ErrHelp {
		fmt.Print(usage)
		return nil
	} else if err != nil {
		return fmt.Errorf("%w\n\n%s", err, usage)
	}
	command := flags.Arg(0)
	if command == "help" {
		fmt.Print(usage)
		return nil
	}
	perform, known := map[string]func(context.Context, config) error{
		"": serve, "serve": serve, "api": serveAPI, "relay": serveRelay, "migrate": migrate,
		"healthcheck": func(ctx context.Context, c config) error { return httpserver.CheckHealth(ctx, c.OpsAddr) },
	}[command]
	if !known || flags.NArg() > 1 {
		return fmt.Errorf("there is no command %q\n\n%s", flags.Args(), usage)
	}
	config, err := settings.Parse(check)
	if err != nil {
		return fmt.Errorf("the configuration is wrong:\n%w", err)
	}
	flush, err := telemetry.Setup(ctx, service, config.LogLevel)
	if err != nil {
		return err
	}
	defer flush()
	return perform(ctx, config)
}
