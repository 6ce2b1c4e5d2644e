package main

import (
	"context"
	"errors"
	"time"
)

// returnOldPrimary starts the killed primary again after the failover, as it was: it takes writes,
// and waits for its standby at each commit. All connections to the new primary are reset meanwhile.
// The first host of the URL is the old primary, and no replica may go back to it.
func (sys *system) returnOldPrimary(ctx context.Context) error {
	if err := errors.Join(sys.failOver(ctx), sys.sleepRandom(ctx, time.Second)); err != nil {
		return err
	}
	old := sys.standby.server
	if err := old.Start(ctx); err != nil {
		return err
	}
	sys.allowInFlight()
	before := accepted(sys.standby.hosts[0])
	reset := time.Now()
	for _, p := range sys.standby.hosts[1] {
		sys.injected += p.Open()
		p.Reset()
	}
	if err := errors.Join(sleep(ctx, sys.scaled(5*time.Second)), sys.requireWorkSince(ctx, reset, takeoverTime)); err != nil {
		return err
	}
	if back := accepted(sys.standby.hosts[0]) - before; back > 0 {
		sys.reportViolation("P1", "%d connections went back to the old primary", back)
	}
	return old.Kill() //nolint:contextcheck // it is fast, and never interrupted
}

// accepted counts the connections that the services have opened to a host.
func accepted(host databaseHost) (n int) {
	for _, p := range host {
		n += p.Accepted()
	}
	return n
}
