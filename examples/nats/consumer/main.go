// Command consumer takes order events from NATS JetStream. Each has its effect once: a notification
// in notification-service's database, recorded in the transaction that records the message's id.
//
// What it promises: at-least-once delivery, exactly-once effect. It acknowledges a message after
// the commit. A message that it cannot read goes to the stream NOTIFICATION_SERVICE_DLQ, unchanged,
// with the reason. A message that fails for another reason comes again.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
)

const service = "nats-consumer"

// maxDrain is how long the process may take to end after the first signal.
const maxDrain = 25 * time.Second

func main() {
	if len(os.Args) > 1 {
		help(os.Stdout)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		stop() // a second signal ends the process at once
		time.AfterFunc(maxDrain, func() { os.Exit(1) })
	})
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", service, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	c, err := settings.Parse(check)
	if err != nil {
		return fmt.Errorf("these settings are wrong:\n%w", err)
	}
	flush, err := telemetry.Setup(ctx, service, c.LogLevel)
	if err != nil {
		return err
	}
	defer flush()
	telemetry.LogTo(os.Stdout, service, c.LogLevel)
	return serve(ctx, c)
}

// help lists the settings.
func help(out io.Writer) {
	_, _ = fmt.Fprintf(out, "Usage: %s\n\nRecords a notification for each order event. Environment variables:\n\n", service)
	for field := range reflect.TypeFor[config]().Fields() {
		_, _ = fmt.Fprintf(out, "  %-32s %s\n", field.Tag.Get("env")+" "+field.Tag.Get("envDefault"), field.Tag.Get("help"))
	}
}
