package main

import (
	"context"
	"fmt"
	"time"

	"example.com/transactional-outbox/test/servicelog"
)

// logged waits for the first log line with this message.
func (r *replica) logged(ctx context.Context, message string) (servicelog.Line, error) {
	l, err := servicelog.Await(ctx, r.process, r.logFile(), message)
	if err != nil {
		return l, fmt.Errorf("%s: %w", r.name, err)
	}
	return l, nil
}

// find returns the first log line with this message.
func (r *replica) find(message string) (servicelog.Line, error) {
	return r.findSince(message, time.Time{})
}

// findSince returns the first log line with this message at or after a time.
func (r *replica) findSince(message string, since time.Time) (servicelog.Line, error) {
	return servicelog.Find(r.logFile(), message, since)
}
