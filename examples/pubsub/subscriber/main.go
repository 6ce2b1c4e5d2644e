// Command subscriber is a small consumer of the events: package inbox on a subscription.
package main

import (
	"context"
	"errors"
	"log"
	"os/signal"
	"syscall"

	"cloud.google.com/go/pubsub/v2"
	"github.com/caarlos0/env/v11"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/examples/pubsub/inbox"
)

// settings come from environment variables. The client library reads PUBSUB_EMULATOR_HOST.
type settings struct {
	DatabaseURL  string `env:"DATABASE_URL,required,notEmpty"`
	Project      string `env:"PUBSUB_PROJECT_ID,required,notEmpty"`
	Subscription string `env:"PUBSUB_SUBSCRIPTION,required,notEmpty"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err) //nolint:gocritic // the process ends, so the signals need no restoring
	}
}

func run(ctx context.Context) error {
	s, err := env.ParseAs[settings]()
	if err != nil {
		return err
	}
	db, err := pgxpool.New(ctx, s.DatabaseURL)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := inbox.Migrate(ctx, db); err != nil {
		return err
	}
	client, err := pubsub.NewClient(ctx, s.Project)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	if err := inbox.Receive(ctx, client, s.Subscription, db); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
