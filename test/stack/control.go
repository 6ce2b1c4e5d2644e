package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
)

var (
	errNotUp = errors.New("the system is not up: run `make demo`")
	// errNotStarted is for a server that others may use.
	errNotStarted = errors.New("stack did not start it, and others may use it; for a private one: make down, and " + privateOnly + "=1 make demo")
)

// up starts the whole system. Running services are restarted.
func (s *stack) up(ctx context.Context, _ []string) (err error) {
	if s.state.Servers, err = s.provide(ctx); err != nil {
		return err
	}
	if folder, private := s.state.Private[rabbitMQ.name]; private {
		broker, err := servers.NewRabbitMQ(folder, process.Detached)
		if err != nil {
			return err
		}
		if err := broker.CreateVhost(ctx, s.root, rabbitMQ.home); err != nil {
			return fmt.Errorf("create the services' users at RabbitMQ: %w", err)
		}
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
	// Both are started before the first is awaited: notification-service is not ready until
	// order-service has declared the exchange.
	started := map[string]*process.Process{}
	for _, svc := range services {
		if started[svc.name], err = s.startService(ctx, svc); err != nil {
			return err
		}
	}
	for _, svc := range services {
		if err := s.awaitReady(ctx, svc, started[svc.name]); err != nil {
			return err
		}
	}
	return nil
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

// stopServices stops the recorded services. order-service is first, so that notification-service
// can process its last events.
func (s *stack) stopServices(ctx context.Context) error {
	for _, svc := range services {
		if err := s.stopService(ctx, svc); err != nil {
			return err
		}
		delete(s.state.Services, svc.name)
	}
	return s.save()
}

// down stops everything that was started from this checkout, and prints which databases stay.
func (s *stack) down(ctx context.Context, _ []string) error {
	if err := s.stopServices(ctx); err != nil {
		return err
	}
	for _, k := range kinds {
		if err := s.stopPrivate(ctx, k); err != nil {
			return fmt.Errorf("stop the private %s: %w", k.name, err)
		}
	}
	var databases []string
	for _, svc := range services {
		if _, created := s.state.Databases[svc.name]; created {
			databases = append(databases, svc.database)
		}
	}
	if len(databases) > 0 {
		s.logf("the databases %s stay, with all orders", strings.Join(databases, " and "))
	}
	return os.Remove(s.path("state.json"))
}

// kill kills a service, as a crash would.
func (s *stack) kill(ctx context.Context, args []string) error {
	svc, err := s.serviceNamed(args[0])
	if err != nil {
		return err
	}
	p := process.Find(s.state.Services[svc.name])
	if p == nil {
		return fmt.Errorf("%s is not running", svc.name)
	}
	if err := p.End(ctx, syscall.SIGKILL); err != nil {
		return err
	}
	s.logf("killed %s (process %d)", svc.name, p.PID)
	return nil
}

// stop stops a service or a private server. Its state stays, for start.
func (s *stack) stop(ctx context.Context, args []string) error {
	if k, ok := kindNamed(args[0]); ok {
		if err := s.requirePrivate(k); err != nil {
			return err
		}
		return s.stopPrivate(ctx, k)
	}
	svc, err := s.serviceNamed(args[0])
	if err != nil {
		return err
	}
	return s.stopService(ctx, svc)
}

// start starts a stopped or killed service or server again.
func (s *stack) start(ctx context.Context, args []string) error {
	if k, ok := kindNamed(args[0]); ok {
		if err := s.requirePrivate(k); err != nil {
			return err
		}
		address, err := s.startIn(ctx, s.state.Private[k.name], k)
		if up, known := s.state.Servers[k.name]; err == nil && known && address != up {
			return fmt.Errorf("the services use %s at %s, and it is now at another address: run `make down` and `make demo`", k.name, redacted(up))
		}
		return err
	}
	svc, err := s.serviceNamed(args[0])
	if err != nil || process.Find(s.state.Services[svc.name]) != nil {
		return err
	}
	p, err := s.startService(ctx, svc)
	if err != nil {
		return err
	}
	return s.awaitReady(ctx, svc, p)
}

func (s *stack) requirePrivate(k kind) error {
	if _, private := s.state.Private[k.name]; private {
		return nil
	}
	if address, up := s.state.Servers[k.name]; up {
		return fmt.Errorf("%s at %s is not stopped: %w", k.name, redacted(address), errNotStarted)
	}
	return errNotUp
}

// kindNamed returns the server with this name, in any case.
func kindNamed(name string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return strings.EqualFold(k.name, name) })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// serviceNamed returns a service that up has started.
func (s *stack) serviceNamed(name string) (service, error) {
	i := slices.IndexFunc(services, func(svc service) bool { return svc.name == name })
	if i < 0 {
		return service{}, fmt.Errorf("there is no %q; the names are order-service, notification-service, and for stop and start also PostgreSQL and RabbitMQ", name)
	}
	if _, started := s.state.Services[name]; !started {
		return service{}, errNotUp
	}
	return services[i], nil
}

// runCommand runs another command of a service's program.
func (s *stack) runCommand(ctx context.Context, args []string) error {
	svc, err := s.serviceNamed(args[0])
	if err != nil {
		return err
	}
	cmd := s.program(ctx, svc, s.state.Databases[svc.name], args[1])
	cmd.Args = append(cmd.Args, args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, s.out, s.log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// printDatabases prints the URLs of the databases' owner. The services' own users have fewer
// rights.
func (s *stack) printDatabases(context.Context, []string) error {
	server, up := s.state.Servers[postgreSQL.name]
	if !up {
		return errNotUp
	}
	for _, svc := range services {
		address, err := withDatabase(server, svc.database)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "--%s-db\n%s\n", strings.TrimSuffix(svc.name, "-service"), address)
	}
	return nil
}
