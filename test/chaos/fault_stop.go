package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	"example.com/transactional-outbox/test/servers"
)

// stopReplica stops a replica, and records its exit.
func (sys *system) stopReplica(ctx context.Context, r *replica) error {
	exit, err := r.stop(ctx)
	if err == nil {
		sys.mu.Lock()
		defer sys.mu.Unlock()
		sys.exits = append(sys.exits, exit)
	}
	return err
}

func (sys *system) restartOneByOne(ctx context.Context) error {
	for range 2 {
		for _, r := range sys.allReplicas() {
			if err := errors.Join(sys.stopReplica(ctx, r), r.start(ctx)); err != nil {
				return err
			}
			sys.injected++
		}
	}
	return nil
}

// terminateTwice sends a second SIGTERM to processes that are still stopping. The relays cannot
// stop at once, because the broker does not confirm their batches.
func (sys *system) terminateTwice(ctx context.Context) error {
	sys.allowInFlight()
	for i, r := range sys.orderServices {
		if err := sys.terminateReplicaTwice(ctx, i, r); err != nil {
			return err
		}
	}
	for _, r := range sys.notificationServices {
		if err := sys.terminateReplicaTwice(ctx, -1, r); err != nil {
			return err
		}
		sys.allowMailRepeats(r)
	}
	return nil
}

func (sys *system) terminateReplicaTwice(ctx context.Context, i int, r *replica) error {
	if i >= 0 {
		sys.ordersToBroker[i].Stall()
		defer sys.ordersToBroker[i].Resume()
	}
	if err := sleep(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	if err := r.process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := sys.sleepRandom(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	exit, err := r.stop(ctx)
	if err != nil {
		return err
	}
	if exit.Code != 0 { // the second signal ended it
		sys.injected++
		exit.Code = 0
	}
	sys.exits = append(sys.exits, exit)
	return r.start(ctx)
}

func (sys *system) terminateWithHungBroker(ctx context.Context) error {
	sys.allowInFlight()
	sys.allowed.Refusals = true // there is no answer in time
	return sys.stopWhileStalled(ctx, sys.brokerProxies())
}

func (sys *system) terminateWithHungDatabase(ctx context.Context) error {
	sys.allowInFlight() // confirmed events cannot be marked before the process must end, nor sent e-mails
	sys.allowed.Mails += sys.notificationServices[0].mailsInHand()
	sys.allowed.MailsEach++
	return sys.stopWhileStalled(ctx, sys.databaseProxies())
}

// stopWhileStalled stops replicas while these connections are stalled.
func (sys *system) stopWhileStalled(ctx context.Context, proxies []*servers.Proxy) error {
	for _, p := range proxies {
		sys.injected += p.Open()
		p.Stall()
		defer p.Resume()
	}
	if err := sleep(ctx, sys.scaled(2*time.Second)); err != nil {
		return err
	}
	return sys.stopOneOfEach(ctx)
}
