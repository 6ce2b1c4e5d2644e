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

// Names of services and servers for stop and start.
const (
	orderService        = "order-service"
	notificationService = "notification-service"
	rabbitMQ            = "rabbitmq"
)

// machine has the commands that control the services. The name of the service is appended.
type machine struct {
	kill, stop, start []string
	run               []string // runs another command of the service's program
	program           []string // inserted between the name of the service and the arguments
	list              []string // prints one line for each replica; nil: there is one replica
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

// command runs one of the commands, and returns its output.
func command(ctx context.Context, verb []string, arguments ...string) (string, error) {
	words := slices.Concat(verb, arguments)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	// In its own process group: Ctrl-C reaches only this program, which then undoes its changes.
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

// service runs a command of a service's program, for example outbox list.
func (m machine) service(ctx context.Context, name string, arguments ...string) (string, error) {
	return command(ctx, m.run, slices.Concat([]string{name}, m.program, arguments)...)
}

// requireOne refuses several replicas, because the experiments read the metrics of one.
func (m machine) requireOne(ctx context.Context, service string) error {
	if m.list == nil {
		return nil
	}
	replicas, err := command(ctx, m.list, service)
	if n := len(strings.Fields(replicas)); err == nil && n > 1 {
		err = fmt.Errorf("%w: there are %d replicas of %s, and this works with one only: docker compose up -d --scale %s=1", errNotTried, n, service, service)
	}
	return err
}
