package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"example.com/transactional-outbox/internal/servertest/process"
)

var (
	errNotUp = errors.New("the system is not up: run `make up`")
	// errNotOurs is about a server that others may use.
	errNotOurs = errors.New("it was only found, and others may use it; for a private one: make down, and " + privateOnly + "=1 make demo")
)

// kill ends a service as a crash would.
func (s *stack) kill(ctx context.Context, args []string) error {
	svc, err := s.serviceNamed(args[0])
	if err != nil {
		return err
	}
	p := process.Find(s.state.Services[svc.name])
	if p == nil {
		return fmt.Errorf("%s does not run", svc.name)
	}
	if err := p.End(ctx, syscall.SIGKILL); err != nil {
		return err
	}
	s.say("killed %s (process %d)", svc.name, p.PID)
	return nil
}

// stop ends a service or a private server in order. Its state stays, for start.
func (s *stack) stop(ctx context.Context, args []string) error {
	if k, ok := kindNamed(args[0]); ok {
		if err := s.requireOurs(k); err != nil {
			return err
		}
		return s.stopPrivate(ctx, k)
	}
	svc, err := s.serviceNamed(args[0])
	if err != nil {
		return err
	}
	if p := process.Find(s.state.Services[svc.name]); p != nil {
		return s.end(ctx, svc, p)
	}
	return nil
}

// start brings back what was stopped or killed, as it was.
func (s *stack) start(ctx context.Context, args []string) error {
	if k, ok := kindNamed(args[0]); ok {
		if err := s.requireOurs(k); err != nil {
			return err
		}
		address, err := s.startIn(ctx, s.state.Private[k.name], k)
		if up, known := s.state.Servers[k.name]; err == nil && known && address != up {
			return fmt.Errorf("the services look for %s at %s: run `make down` and `make up`", k.name, redacted(up))
		}
		return err
	}
	svc, err := s.serviceNamed(args[0])
	if err != nil || process.Find(s.state.Services[svc.name]) != nil {
		return err
	}
	p, err := s.startService(ctx, svc, s.state.Servers[postgreSQL.name], s.state.Servers[rabbitMQ.name])
	if err != nil {
		return err
	}
	return s.awaitReady(ctx, svc, p)
}

func (s *stack) requireOurs(k kind) error {
	if _, private := s.state.Private[k.name]; private {
		return nil
	}
	if address, found := s.state.Found[k.name]; found {
		return fmt.Errorf("%s at %s is not stopped: %w", k.name, address, errNotOurs)
	}
	return errNotUp
}

// kindNamed knows the servers by their names, however they are written.
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
		return service{}, fmt.Errorf("there is no %q; there are order-service and notification-service, and PostgreSQL and RabbitMQ to stop and start", name)
	}
	if _, started := s.state.Services[name]; !started {
		return service{}, errNotUp
	}
	return services[i], nil
}

// runCommand runs another command of a service's program beside the service.
func (s *stack) runCommand(ctx context.Context, args []string) error {
	svc, err := s.serviceNamed(args[0])
	if err != nil {
		return err
	}
	cmd := s.program(ctx, svc, s.state.Databases[svc.name], s.state.Servers[rabbitMQ.name], args[1])
	cmd.Args = append(cmd.Args, args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, s.out, s.log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// printDatabases names them with the rights of who made them: the services' own users
// may do less.
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
