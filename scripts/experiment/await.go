package main

import (
	"context"
	"fmt"
	"time"
)

const (
	lookInterval = 100 * time.Millisecond
	tellInterval = 10 * time.Second // how often somebody who waits is told why
)

// await looks until nothing is missing.
func (l *lab) await(ctx context.Context, limit time.Duration, look func(context.Context) (missing string, err error)) error {
	deadline := time.Now().Add(limit)
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	tell := time.Now().Add(tellInterval)
	for {
		missing, err := look(ctx)
		if err != nil || missing == "" {
			return err
		}
		switch now := time.Now(); {
		case now.After(deadline):
			return fmt.Errorf("broken: after %s, %s", limit, missing)
		case now.After(tell):
			l.see("… %s", missing)
			tell = now.Add(tellInterval)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
