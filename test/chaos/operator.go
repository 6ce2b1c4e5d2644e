package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// runCommand runs an operator's command of a service.
func (sys *system) runCommand(ctx context.Context, r *replica, arguments ...string) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	command := exec.CommandContext(ctx, r.program, arguments...) //nolint:gosec // our own
	command.Env = append([]string{"APP_ENV=demo"}, r.settings...)
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %v: %w\n%s", filepath.Base(r.program), arguments, err, output)
	}
	return nil
}

// republish publishes all events again: the broker has lost some when the topology was damaged.
func (sys *system) republish(ctx context.Context) error {
	events, err := sys.awaitPublished(ctx)
	if err != nil {
		return err
	}
	// The broker refuses an event while it is putting it into a queue that is deleted.
	if _, err := sys.allowRefusedCopies(ctx); err != nil {
		return err
	}
	sys.allowed.Duplicates += events
	return sys.runCommand(ctx, sys.orderServices[0], "outbox", "republish", "--since", "1h")
}

// awaitPublished waits until all events are published, and returns their number.
func (sys *system) awaitPublished(ctx context.Context) (events int, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for due := -1; due != 0; {
		err := sys.orderDB.QueryRow(ctx, "SELECT count(*), count(*) FILTER (WHERE status <> 'published') FROM outbox_status").Scan(&events, &due)
		if err := errors.Join(err, sleep(ctx, 100*time.Millisecond)); err != nil {
			return 0, fmt.Errorf("%d events are not published: %w", due, err)
		}
	}
	return events, nil
}
