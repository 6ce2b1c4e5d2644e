// Package servicelog reads the JSON logs of the services.
package servicelog

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"example.com/transactional-outbox/test/env/process"
)

// Line is a line of a log.
type Line struct {
	Time    time.Time
	Message string `json:"msg"`
	Address string // of a listener
}

// Await waits for the first line with this message in the log of a process.
func Await(ctx context.Context, p *process.Process, path, message string) (l Line, err error) {
	err = p.AwaitReady(ctx, func(context.Context) error {
		l, err = Find(path, message, time.Time{})
		return err
	})
	if err != nil {
		return l, fmt.Errorf("%w; its log:\n%s", err, process.LastLines(path))
	}
	return l, nil
}

// Find returns the first line with this message at or after a time.
func Find(path, message string, since time.Time) (l Line, err error) {
	log, err := os.Open(path) //nolint:gosec // the caller's own file
	if err != nil {
		return l, err
	}
	defer func() { _ = log.Close() }()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Message == message && !l.Time.Before(since) {
			return l, nil
		}
	}
	return Line{}, fmt.Errorf("it has not logged %q", message)
}
