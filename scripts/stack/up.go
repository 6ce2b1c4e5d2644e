package main

import (
	"context"
	"fmt"
	"os/exec"

	"example.com/transactional-outbox/internal/servertest/process"
)

// up brings the whole system up, whatever of it runs already.
func (s *stack) up(ctx context.Context, _ []string) error {
	server, err := s.provide(ctx, postgreSQL)
	if err != nil {
		return err
	}
	broker, err := s.provide(ctx, rabbitMQ)
	if err != nil {
		return err
	}
	s.state.Servers = map[string]string{postgreSQL.name: server, rabbitMQ.name: broker}
	if err := s.provisionBroker(ctx); err != nil {
		return err
	}
	// Built first: a program that does not compile is no reason to end the one that runs.
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
	return s.startServices(ctx, server, broker)
}

func (s *stack) build(ctx context.Context) error {
	s.say("building the services into build/bin (the first time takes a minute)")
	build := exec.CommandContext(ctx, "go", "build", "-o", "build/bin/", "./order-service", "./notification-service")
	build.Dir, build.Stdout, build.Stderr = s.root, s.log, s.log
	if err := build.Run(); err != nil {
		return fmt.Errorf("the services do not compile: %w", err)
	}
	return nil
}

// startServices starts both before it waits for either: notification-service is not ready
// until the other one has declared the exchange.
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

// startService prepares the service's database and starts it, detached.
func (s *stack) startService(ctx context.Context, svc service, server, broker string) (*process.Process, error) {
	database, err := s.createDatabase(ctx, server, svc.database)
	if err != nil {
		return nil, fmt.Errorf("create the database %s: %w", svc.database, err)
	}
	roles, err := s.provisionDatabase(ctx, svc, database)
	if err != nil {
		return nil, fmt.Errorf("make the roles of %s: %w", svc.name, err)
	}
	if output, err := s.program(ctx, svc, roles.Owner, broker, "migrate").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s migrate: %w:\n%s", svc.name, err, output)
	}
	// Not bound to ctx, which ends with this program.
	serve := s.program(context.WithoutCancel(ctx), svc, roles.Application, broker, "serve")
	p, err := process.Start(serve, process.Detached, s.logOf(svc))
	if err != nil {
		return nil, err
	}
	s.state.Services[svc.name], s.state.Databases[svc.name] = p.ID, roles.Application
	return p, s.save()
}
