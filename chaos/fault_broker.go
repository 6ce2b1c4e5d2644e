package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/internal/servertest"
)

// brokerProxies are all ways to the broker.
func (y *system) brokerProxies() []*servertest.Proxy {
	return slices.Concat(y.ordersToBroker[:], y.notifyToBroker[:])
}

// excuseUnknown allows for what all relays had in flight when they lost the broker.
func (y *system) excuseUnknown() { y.allowed.Duplicates += replicas * inFlight }

func (y *system) killBroker(ctx context.Context) error {
	y.excuseUnknown()
	if err := y.rabbitmq.Kill(); err != nil { //nolint:contextcheck // it takes a moment, and is never broken off
		return err
	}
	return y.returnBroker(ctx)
}

func (y *system) restartBroker(ctx context.Context) error {
	y.excuseUnknown()
	if err := y.rabbitmq.Stop(ctx); err != nil {
		return err
	}
	return y.returnBroker(ctx)
}

// returnBroker starts a broker that was made to end.
func (y *system) returnBroker(ctx context.Context) error {
	if !y.rabbitmq.Running() {
		y.injected++
	}
	return errors.Join(y.aMoment(ctx, time.Second), y.startBroker(ctx))
}

func (y *system) refuseBroker(ctx context.Context) error {
	y.excuseUnknown()
	return y.refuse(ctx, y.brokerProxies(), y.scaled(12*time.Second))
}

// refuse breaks all connections and takes no new ones for a while. It counts those that
// were tried.
func (y *system) refuse(ctx context.Context, proxies []*servertest.Proxy, d time.Duration) error {
	before := 0
	for _, p := range proxies {
		before += p.Accepted()
		p.Refuse(true)
		p.Cut()
	}
	err := sleep(ctx, d)
	for _, p := range proxies {
		y.injected += p.Accepted()
		p.Refuse(false)
	}
	y.injected -= before
	return err
}

func (y *system) silenceBroker(ctx context.Context) error {
	y.excuseUnknown()
	for _, p := range y.brokerProxies() {
		y.injected += p.Open()
		p.Stall()
	}
	err := sleep(ctx, y.scaled(10*time.Second))
	for _, p := range y.brokerProxies() {
		p.Reset() // what is on its way never arrives
		p.Resume()
	}
	return err
}

func (y *system) resetBroker(ctx context.Context) error {
	for range 5 {
		y.excuseUnknown()
		for _, p := range y.brokerProxies() {
			y.injected += p.Open()
			p.Reset()
		}
		if err := y.aMoment(ctx, y.scaled(2*time.Second)); err != nil {
			return err
		}
	}
	return nil
}

func (y *system) alarmMemory(ctx context.Context) error {
	return y.alarm(ctx, "set_vm_memory_high_watermark", []string{"absolute", "1MB"}, "0.4")
}

func (y *system) alarmDisk(ctx context.Context) error {
	return y.alarm(ctx, "set_disk_free_limit", []string{"999999GB"}, "50MB")
}

// alarm lets the broker block its publishers for a while, by a limit that it is over.
func (y *system) alarm(ctx context.Context, limit string, tooTight []string, usual string) (err error) {
	y.excuseUnknown()
	if _, err := y.rabbitmq.Ctl(ctx, append([]string{limit}, tooTight...)...); err != nil {
		return err
	}
	defer func() {
		_, lifted := y.rabbitmq.Ctl(context.WithoutCancel(ctx), limit, usual)
		err = errors.Join(err, lifted)
	}()
	blocks, err := y.broker.Blocks(ctx)
	if err != nil {
		return err
	}
	if blocks {
		y.injected++
	}
	if err := y.aMoment(ctx, y.scaled(4*time.Second)); err != nil {
		return err
	}
	return y.endOne(ctx)
}

// endOne asks one replica of each service to end.
func (y *system) endOne(ctx context.Context) error {
	y.load.Accuse(false) // of those that end, requests may be refused
	ending, ctx := errgroup.WithContext(ctx)
	for _, r := range []*replica{y.orders[0], y.notifications[0]} {
		ending.Go(func() error { return y.end(ctx, r) })
	}
	return ending.Wait()
}

func (y *system) slowNetwork(ctx context.Context) error {
	y.slow(y.brokerProxies(), 150*time.Millisecond)
	y.slow(y.databaseProxies(), 20*time.Millisecond) // a transaction has several round trips
	err := sleep(ctx, y.scaled(6*time.Second))
	y.slow(append(y.brokerProxies(), y.databaseProxies()...), 0)
	return err
}

func (y *system) slow(proxies []*servertest.Proxy, delay time.Duration) {
	for _, p := range proxies {
		if delay > 0 {
			y.injected += p.Open()
		}
		p.Slow(delay)
	}
}
