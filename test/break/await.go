package main

import (
	"context"
	"fmt"
	"time"
)

const (
	pollInterval   = 100 * time.Millisecond
	reportInterval = 10 * time.Second // how often a wait prints what is missing
)

// await calls look until nothing is missing, or until the limit.
func (l *lab) await(ctx context.Context, limit time.Duration, look func(context.Context) (missing string, err error)) error {
	deadline := time.Now().Add(limit)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	tell := time.Now().Add(reportInterval)
	for {
		missing, err := look(ctx)
		if err != nil || missing == "" {
			return err
		}
		switch now := time.Now(); {
		case now.After(deadline):
			return fmt.Errorf("broken: after %s, %s", limit, missing)
		case now.After(tell):
			l.observe("… %s", missing)
			tell = now.Add(reportInterval)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
