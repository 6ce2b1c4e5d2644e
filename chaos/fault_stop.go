package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	"example.com/transactional-outbox/internal/servertest"
)

// end asks a replica to end, and notes how it does.
func (y *system) end(ctx context.Context, r *replica) error {
	exit, err := r.stop(ctx)
	if err == nil {
		y.mu.Lock()
		defer y.mu.Unlock()
		y.exits = append(y.exits, exit)
	}
	return err
}

func (y *system) roll(ctx context.Context) error {
	for range 2 {
		for _, r := range y.all() {
			if err := errors.Join(y.end(ctx, r), r.start(ctx)); err != nil {
				return err
			}
			y.injected++
		}
	}
	return nil
}

// terminateTwice sends the second signal to processes that cannot end at once: the
// broker does not confirm what they have in hand.
func (y *system) terminateTwice(ctx context.Context) error {
	y.excuseUnknown()
	for i, r := range y.orders {
		if err := y.twice(ctx, i, r); err != nil {
			return err
		}
	}
	for _, r := range y.notifications {
		if err := y.twice(ctx, -1, r); err != nil {
			return err
		}
		y.excuseDeath(r)
	}
	return nil
}

func (y *system) twice(ctx context.Context, i int, r *replica) error {
	if i >= 0 {
		y.ordersToBroker[i].Stall()
		defer y.ordersToBroker[i].Resume()
	}
	if err := sleep(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	if err := r.process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := y.aMoment(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	exit, err := r.stop(ctx)
	if err != nil {
		return err
	}
	if exit.Code != 0 { // it did not end by the first one
		y.injected++
		exit.Code = 0
	}
	y.exits = append(y.exits, exit)
	return r.start(ctx)
}

func (y *system) terminateWithHungBroker(ctx context.Context) error {
	y.excuseUnknown()
	return y.terminateBehind(ctx, y.brokerProxies())
}

func (y *system) terminateWithHungDatabase(ctx context.Context) error {
	y.excuseUnknown()                 // what was confirmed cannot be marked
	y.excuseDeath(y.notifications[0]) // nor what was sent, in the time that there is
	return y.terminateBehind(ctx, y.databaseProxies())
}

// terminateBehind asks replicas to end while what is behind these proxies is silent.
func (y *system) terminateBehind(ctx context.Context, proxies []*servertest.Proxy) error {
	for _, p := range proxies {
		y.injected += p.Open()
		p.Stall()
		defer p.Resume()
	}
	if err := sleep(ctx, y.scaled(2*time.Second)); err != nil {
		return err
	}
	return y.endOne(ctx)
}
