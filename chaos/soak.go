package main

import (
	"context"
	"time"
)

// soak is chance: one fault after the other, replayable by its seed.
var soak = scenario{
	name: "soak", does: "random faults every few seconds",
	fault: (*system).soak,
}

// soakable are the faults after which nobody has to mend anything by hand.
var soakable = []string{
	"orders-sigkill", "notifications-sigkill", "broker-sigkill", "broker-restart", "broker-outage", "broker-silent", "broker-reset",
	"postgres-restart", "postgres-immediate", "postgres-sigkill", "postgres-terminate", "commit-reply-lost", "table-locked",
	"smtp-down", "smtp-slow", "smtp-drops-after-data", "sigterm", "slow-network", "way-back-deleted",
}

func (y *system) soak(ctx context.Context) error {
	for end := time.Now().Add(y.Soak); time.Now().Before(end); {
		name := soakable[y.random.IntN(len(soakable))]
		s, _ := find(name)
		progress("  %s: %s", time.Now().Format(time.TimeOnly), name)
		if err := s.fault(y, ctx); err != nil {
			return err
		}
		if err := y.aMoment(ctx, 4*time.Second); err != nil {
			return err
		}
	}
	return nil
}
