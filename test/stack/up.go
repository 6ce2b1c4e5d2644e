package main

import (
	"context"
	"fmt"
	"os/exec"

	"example.com/transactional-outbox/test/servers/process"
)

// up starts the whole system. Running services are restarted.
func (s *stack) up(ctx context.Context, _ []string) error {
	addresses, err := s.provide(ctx)
	if err != nil {
		return err
	}
	s.state.Servers = addresses
	if err := s.provisionBroker(ctx); err != nil {
		return err
	}
	// Build first: if this fails, the running services are not stopped.
	if err := s.build(ctx); err != nil {
		return err
	}
	if err := s.stopServices(ctx); err != nil {
		return err
	}
	for _, svc := range services {
		if err := svc.requireFree(); err != nil {
			return err
		}
	}
	return s.startServices(ctx, addresses[postgreSQL.name], addresses[rabbitMQ.name])
}

func (s *stack) build(ctx context.Context) error {
	s.logf("building the services into build/bin (the first time takes a minute)")
	build := exec.CommandContext(ctx, "go", "build", "-o", "build/bin/", "./order-service", "./notification-service")
	build.Dir, build.Stdout, build.Stderr = s.root, s.log, s.log
	if err := build.Run(); err != nil {
		return fmt.Errorf("the services do not compile: %w", err)
	}
	return nil
}

// startServices starts both services before it waits: notification-service is not ready until
// order-service has declared the exchange.
func (s *stack) startServices(ctx context.Context, server, broker string) error {
	started := map[string]*process.Process{}
	for _, svc := range services {
		p, err := s.startService(ctx, svc, server, broker)
		if err != nil {
			return err
		}
		started[svc.name] = p
	}
	for _, svc := range services {
		if err := s.awaitReady(ctx, svc, started[svc.name]); err != nil {
			return err
		}
	}
	return nil
}

// startService prepares the database and starts the service, detached.
func (s *stack) startService(ctx context.Context, svc service, server, broker string) (*process.Process, error) {
	database, err := s.createDatabase(ctx, server, svc.database)
	if err != nil {
		return nil, fmt.Errorf("create the database %s: %w", svc.database, err)
	}
	roles, err := s.provisionDatabase(ctx, svc, database)
	if err != nil {
		return nil, fmt.Errorf("create the roles of %s: %w", svc.name, err)
	}
	if output, err := s.program(ctx, svc, roles.Owner, broker, "migrate").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s migrate: %w:\n%s", svc.name, err, output)
	}
	// The service must not end with ctx, which ends with this program.
	serve := s.program(context.WithoutCancel(ctx), svc, roles.Application, broker, "serve")
	p, err := process.Start(serve, process.Detached, s.logPath(svc))
	if err != nil {
		return nil, err
	}
	s.state.Services[svc.name], s.state.Databases[svc.name] = p.ID, roles.Application
	return p, s.save()
}
