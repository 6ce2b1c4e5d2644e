package main

import (
	"context"
	"time"

	"example.com/transactional-outbox/test/suite"
)

// soak injects random faults one after the other. A seed repeats their sequence.
var soak = scenario{
	name: "soak", description: "random faults every few seconds",
	fault: (*system).soak,
}

// soakable are the scenarios that need no operator afterwards.
var soakable = []string{
	"orders-sigkill", "notifications-sigkill", "broker-sigkill", "broker-restart", "broker-outage", "broker-silent", "broker-reset",
	"postgres-restart", "postgres-immediate", "postgres-sigkill", "postgres-terminate", "commit-reply-lost", "table-locked",
	"smtp-down", "smtp-slow", "smtp-throttled", "sigterm", "slow-network", "way-back-deleted",
}

func (sys *system) soak(ctx context.Context) error {
	for end := time.Now().Add(sys.Soak); time.Now().Before(end); {
		name := soakable[sys.random.IntN(len(soakable))]
		s, _ := find(name)
		suite.Progress("  %s: %s", time.Now().Format(time.TimeOnly), name)
		if err := s.fault(sys, ctx); err != nil {
			return err
		}
		if err := sys.sleepRandom(ctx, 4*time.Second); err != nil {
			return err
		}
	}
	return nil
}
