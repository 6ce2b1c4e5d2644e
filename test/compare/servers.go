package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"example.com/transactional-outbox/test/compare/shop"
	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

// allServers are the servers on which the rows run, one after the other. Their folder also has the
// programs.
type allServers struct {
	servers.OfPackage
	broker broker.Broker // its client
	rows   int
}

func openServers(ctx context.Context) (*allServers, error) {
	private, err := servers.OpenForPackage(ctx, "compare", process.WithParent)
	if err != nil {
		return nil, err
	}
	return &allServers{OfPackage: private, broker: broker.Broker{URLs: []string{private.Broker.URL("/")}}}, nil
}

func (s *allServers) path(name string) string { return filepath.Join(s.Folder, name) }

// The databases of a row.
const (
	ordersDatabase  = "orders"
	effectsDatabase = "effects"
)

// newDatabase replaces the database of the row before. It has the schema of a service of this
// project, or without one that of the designs. It returns the URL for the processes.
func (s *allServers) newDatabase(ctx context.Context, name, service string) (string, error) {
	if err := s.Database.Execute(ctx, "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		return "", err
	}
	if service == "" {
		if err := s.Database.Execute(ctx, "postgres", "CREATE DATABASE "+name); err != nil {
			return "", err
		}
		return s.Database.URL(name), s.Database.Execute(ctx, name, shop.Schema)
	}
	roles, err := s.Database.CreateFor(ctx, ".", name, strings.ReplaceAll(service, "-", "_"))
	if err != nil {
		return "", err
	}
	if err := services.Migrate(ctx, s.path(service), s.path("migrate.log"), roles.Owner); err != nil {
		return "", err
	}
	return roles.Application, nil
}

// retryQueues are the names of all retry queues, and of their exchanges.
var retryQueues = []string{
	broker.Queue + ".retry.300ms", broker.Queue + ".retry.1s", broker.Queue + ".retry.3s", // this project's
	broker.Queue + ".retry.1", broker.Queue + ".retry.2", broker.Queue + ".retry.3", // retries-main-exchange
}

// otherService is the queue of a second service.
const otherService = "billing"

// resetBroker deletes what the row before has declared.
func (s *allServers) resetBroker(ctx context.Context) error {
	queues := append([]string{broker.Queue, broker.DeadLetters, broker.Tap, otherService}, retryQueues...)
	exchanges := append([]string{broker.Exchange, "notification-service.dlx", broker.Requeue}, retryQueues...)
	return errors.Join(s.broker.DeleteQueues(ctx, queues...), s.broker.DeleteExchanges(ctx, exchanges...), s.broker.BindTap(ctx))
}

var sleep = suite.Sleep // many lines have it
