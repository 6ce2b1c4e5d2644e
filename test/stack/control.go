package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"example.com/transactional-outbox/test/servers/process"
)

var (
	errNotUp = errors.New("the system is not up: run `make demo`")
	// errNotStarted is for a server that others may use.
	errNotStarted = errors.New("stack did not start it, and others may use it; for a private one: make down, and " + privateOnly + "=1 make demo")
)

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
	if p := process.Find(s.state.Services[svc.name]); p != nil {
		return s.stopService(ctx, svc, p)
	}
	return nil
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
	p, err := s.startService(ctx, svc, s.state.Servers[postgreSQL.name], s.state.Servers[rabbitMQ.name])
	if err != nil {
		return err
	}
	return s.awaitReady(ctx, svc, p)
}

func (s *stack) requirePrivate(k kind) error {
	if _, private := s.state.Private[k.name]; private {
		return nil
	}
	if address, found := s.state.Found[k.name]; found {
		return fmt.Errorf("%s at %s is not stopped: %w", k.name, address, errNotStarted)
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
	cmd := s.program(ctx, svc, s.state.Databases[svc.name], s.state.Servers[rabbitMQ.name], args[1])
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
