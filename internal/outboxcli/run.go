package outboxcli

import (
	"context"
	"fmt"
	"os"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
)

// connections is small, because a command runs one statement at a time.
const connections = 2

// Run opens the database of an action, and runs it. Unlike a service it does not wait for the
// database, because an operator waits for the answer.
func (s Service) Run(
	ctx context.Context, url string, schema postgres.Migrations, to Destination, confirmTimeout time.Duration, action Action,
) error {
	db, err := postgres.Open(ctx, url, connections)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Ready(ctx, schema); err != nil {
		return fmt.Errorf("the database that DATABASE_URL names is not ready: %w", err)
	}
	return action(ctx, Dependencies{
		Outbox: operate.New(db.Pool()), Destination: to, AppID: s.Name, ConfirmTimeout: confirmTimeout,
		Out: os.Stdout, Progress: os.Stderr, By: cli.Name(),
	})
}

// Once returns a destination that runs its function on one session, and waits for it at most so
// long. Named is for the error, such as "the broker that AMQP_URL names".
func Once(named string, d publish.Destination, patience time.Duration) Destination {
	return func(ctx context.Context, use func(context.Context, publish.Session) error) error {
		return cli.OnSession(ctx, named, patience, d.KeepConnected, use)
	}
}

// Unusable returns a destination for settings that are wrong. The other actions do not use it.
func Unusable(err error) Destination {
	return func(context.Context, func(context.Context, publish.Session) error) error { return err }
}
