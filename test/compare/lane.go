package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/chaos/broker"
	"example.com/transactional-outbox/test/compare/shop"
	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

// lane is a set of servers. One row at a time runs on it. With LANES=2 there are two such sets.
type lane struct {
	programs
	folder   string
	postgres *servers.PostgresServer
	standby  *servers.PostgresServer // nil until a row needs it
	rabbitmq *servers.RabbitMQServer
	broker   broker.Broker
	rows     int
}

func openLane(ctx context.Context, p programs) (l *lane, err error) {
	l = &lane{programs: p}
	if l.folder, err = os.MkdirTemp("", "compare-servers-"); err != nil {
		return l, err
	}
	if err := os.Chmod(l.folder, 0o755); err != nil { // as root, PostgreSQL runs as another user
		return l, err
	}
	if l.postgres, err = servers.NewPostgres(filepath.Join(l.folder, "postgres"), process.WithParent); err != nil {
		return l, err
	}
	if l.rabbitmq, err = servers.NewRabbitMQ(filepath.Join(l.folder, "rabbitmq"), process.WithParent); err != nil {
		return l, err
	}
	if err := l.restartServers(ctx); err != nil {
		return l, err
	}
	l.broker = broker.Broker{URLs: []string{l.rabbitmq.URL("/")}} // the start may have changed the port
	return l, l.makeTemplates(ctx)
}

// restartServers starts the servers that do not run.
func (l *lane) restartServers(ctx context.Context) error {
	return errors.Join(l.postgres.Start(ctx), l.rabbitmq.Start(ctx))
}

func (l *lane) close() error {
	var errs []error
	if l.rabbitmq != nil {
		errs = append(errs, l.rabbitmq.Close())
	}
	if l.standby != nil {
		errs = append(errs, l.standby.Close())
	}
	if l.postgres != nil {
		errs = append(errs, l.postgres.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(l.folder))...)
}

// The databases of a row, and the templates from which they are copied.
const (
	ordersDatabase  = "orders"
	effectsDatabase = "effects"
	designTemplate  = "design_template"
)

func templateOf(service string) string {
	return map[string]string{orderService: "orders_template", notificationService: "notifications_template"}[service]
}

func roleOf(service string) string { return strings.ReplaceAll(service, "-", "_") }

func (l *lane) makeTemplates(ctx context.Context) error {
	for _, service := range []string{orderService, notificationService} {
		roles, err := l.postgres.CreateFor(ctx, ".", templateOf(service), roleOf(service))
		if err != nil {
			return err
		}
		migrate := exec.CommandContext(ctx, l.path(service), "migrate")
		migrate.Env = []string{"APP_ENV=demo", "DATABASE_URL=" + roles.Owner}
		if output, err := migrate.CombinedOutput(); err != nil {
			return fmt.Errorf("%s migrate: %w\n%s", service, err, output)
		}
	}
	return errors.Join(l.execute(ctx, "postgres", "CREATE DATABASE "+designTemplate), l.execute(ctx, designTemplate, shop.Schema))
}

// resetDatabases replaces the databases of the row before. It returns the URLs for the processes.
func (l *lane) resetDatabases(ctx context.Context, d design) (orders, effects string, err error) {
	for _, database := range []struct {
		url           *string
		name, service string
		ofProject     bool
	}{
		{&orders, ordersDatabase, orderService, d.side&consumerSide != 0},
		{&effects, effectsDatabase, notificationService, d.name == thisProject},
	} {
		if err := l.execute(ctx, "postgres", "DROP DATABASE IF EXISTS "+database.name+" WITH (FORCE)"); err != nil {
			return "", "", err
		}
		if !database.ofProject {
			if err := l.execute(ctx, "postgres", "CREATE DATABASE "+database.name+" TEMPLATE "+designTemplate); err != nil {
				return "", "", err
			}
			*database.url = l.postgres.URL(database.name)
			continue
		}
		roles, err := l.postgres.CopyFor(ctx, ".", templateOf(database.service), database.name, roleOf(database.service))
		if err != nil {
			return "", "", err
		}
		*database.url = roles.Application
	}
	return orders, effects, nil
}

func (l *lane) execute(ctx context.Context, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, l.postgres.URL(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// retryQueues are the names of all retry queues, and of their exchanges.
var retryQueues = []string{
	broker.Queue + ".retry.300ms", broker.Queue + ".retry.1s", broker.Queue + ".retry.3s", // this project's
	broker.Queue + ".retry.1", broker.Queue + ".retry.2", broker.Queue + ".retry.3", // retries-main-exchange
}

// otherService is the queue of a second service.
const otherService = "billing"

// resetBroker deletes what the row before has declared.
func (l *lane) resetBroker(ctx context.Context) error {
	queues := append([]string{broker.Queue, broker.DeadLetters, broker.Tap, otherService}, retryQueues...)
	exchanges := append([]string{broker.Exchange, "notification-service.dlx", broker.Requeue}, retryQueues...)
	return errors.Join(l.broker.DeleteQueues(ctx, queues...), l.broker.DeleteExchanges(ctx, exchanges...), l.broker.BindTap(ctx))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
