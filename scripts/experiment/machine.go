package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// The names by which services and servers are stopped and started.
const (
	orderService        = "order-service"
	notificationService = "notification-service"
	rabbitMQ            = "rabbitmq"
)

// machine is what the services run on. Each verb is a command, to which the name is
// added.
type machine struct {
	kill, stop, start []string
	run               []string // a command of a service's program, beside the service
	program           []string // what stands between the service and the command's arguments
	list              []string // one line for each replica; nil: there is one
}

var machines = map[string]machine{
	"compose": {
		kill:    []string{"docker", "compose", "kill", "--signal", "SIGKILL"},
		stop:    []string{"docker", "compose", "stop"},
		start:   []string{"docker", "compose", "start"},
		run:     []string{"docker", "compose", "exec", "-T"},
		program: []string{"/service"},
		list:    []string{"docker", "compose", "ps", "--quiet"},
	},
	"processes": {
		kill:  []string{"build/bin/stack", "kill"},
		stop:  []string{"build/bin/stack", "stop"},
		start: []string{"build/bin/stack", "start"},
		run:   []string{"build/bin/stack", "run"},
	},
}

// errNotTried means that nothing was broken.
var errNotTried = errors.New("not tried")

// command runs one of the verbs, and returns what it prints.
func command(ctx context.Context, verb []string, arguments ...string) (string, error) {
	words := slices.Concat(verb, arguments)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	// In a group of its own: Ctrl-C is for this program, which then mends what it broke.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stderr = &said
	printed, err := cmd.Output()
	if err == nil {
		return string(printed), nil
	}
	reason := strings.TrimSpace(said.String())
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == 2 && words[0] != "docker" {
		return "", fmt.Errorf("%w: %s", errNotTried, reason)
	}
	return "", fmt.Errorf("%s: %w\n%s", strings.Join(words, " "), err, reason)
}

// service runs a command of a service's program, such as outbox list.
func (m machine) service(ctx context.Context, name string, arguments ...string) (string, error) {
	return command(ctx, m.run, slices.Concat([]string{name}, m.program, arguments)...)
}

// requireOne refuses several replicas: the numbers that are looked at are those of one.
func (m machine) requireOne(ctx context.Context, service string) error {
	if m.list == nil {
		return nil
	}
	replicas, err := command(ctx, m.list, service)
	if n := len(strings.Fields(replicas)); err == nil && n > 1 {
		err = fmt.Errorf("%w: there are %d replicas of %s, and this looks at one: docker compose up -d --scale %s=1", errNotTried, n, service, service)
	}
	return err
}
