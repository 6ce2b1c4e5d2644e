package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
)

// state is the list of what test/stack has started.
const state = ".stack/state.json"

var export = regexp.MustCompile(`(?m)^export (\w+)='(.*)'$`)

// withServers calls work while PostgreSQL and RabbitMQ run. As `make test` does, it uses servers that
// it finds, or else starts private ones, and then stops those.
func withServers(ctx context.Context, work func() error) (err error) {
	before, _ := os.ReadFile(state)
	find := exec.CommandContext(ctx, "scripts/stack", "servers")
	find.Stderr = os.Stderr
	output, err := find.Output()
	if len(before) == 0 {
		defer func() { err = errors.Join(err, stopServers(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return fmt.Errorf("starting PostgreSQL and RabbitMQ: %w", err)
	}
	for _, m := range export.FindAllStringSubmatch(string(output), -1) {
		if err := os.Setenv(m[1], m[2]); err != nil {
			return err
		}
	}
	return work()
}

// stopServers stops what was started. It shows the output only after an error.
func stopServers(ctx context.Context) error {
	output, err := exec.CommandContext(ctx, "scripts/stack", "down").CombinedOutput()
	if err != nil {
		return fmt.Errorf("stopping the servers: %w\n%s", err, output)
	}
	return nil
}
