package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// service is one of the two services.
type service struct {
	name     string
	database string
	api      string // address of its API; "" if it has none
	ops      string
}

var services = []service{
	{name: "order-service", database: "order_service", api: "127.0.0.1:4000", ops: "127.0.0.1:4100"},
	{name: "notification-service", database: "notification_service", ops: "127.0.0.1:4101"},
}

// program returns a command of the service's program with its configuration. It also gets the
// caller's environment.
func (s *stack) program(ctx context.Context, svc service, databaseURL, brokerURL, argument string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.root, "build", "bin", svc.name), argument)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(),
		"APP_ENV=demo",
		"DATABASE_URL="+databaseURL,
		"AMQP_URL="+s.brokerURL(svc, brokerURL),
		"OPS_ADDR="+svc.ops,
	)
	if svc.api != "" {
		cmd.Env = append(cmd.Env, "HTTP_ADDR="+svc.api)
	}
	return cmd
}

func (s *stack) logPath(svc service) string { return s.path(svc.name + ".log") }

// requireFree returns an error if another process listens on one of the service's addresses.
func (svc service) requireFree() error {
	for _, address := range []string{svc.api, svc.ops} {
		if address == "" {
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("%s needs %s, which %s uses: %w; stop that process and run up again",
				svc.name, address, processListeningOn(address), err)
		}
		_ = listener.Close()
	}
	return nil
}
