package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/servers"
)

// allowInFlight permits duplicates of all events in flight: the relays lose their confirms.
func (sys *system) allowInFlight() { sys.allowed.Duplicates += replicas * inFlight }

func (sys *system) killBroker(ctx context.Context) error {
	sys.allowInFlight()
	if err := sys.rabbitmq.Kill(); err != nil { //nolint:contextcheck // it is fast, and never interrupted
		return err
	}
	return sys.startBrokerAgain(ctx)
}

func (sys *system) restartBroker(ctx context.Context) error {
	sys.allowInFlight()
	if err := sys.rabbitmq.Stop(ctx); err != nil {
		return err
	}
	return sys.startBrokerAgain(ctx)
}

// startBrokerAgain starts the broker again.
func (sys *system) startBrokerAgain(ctx context.Context) error {
	if !sys.rabbitmq.Running() {
		sys.injected++
	}
	return errors.Join(sys.sleepRandom(ctx, time.Second), sys.startBroker(ctx))
}

func (sys *system) refuseBroker(ctx context.Context) error {
	sys.allowInFlight()
	return sys.refuseConnections(ctx, sys.brokerProxies(), sys.scaled(12*time.Second))
}

// refuse closes all connections and refuses new ones for a time. It counts the refused ones.
func (sys *system) refuseConnections(ctx context.Context, proxies []*servers.Proxy, d time.Duration) error {
	before := 0
	for _, p := range proxies {
		before += p.Accepted()
		p.Refuse(true)
		p.Cut()
	}
	err := sleep(ctx, d)
	for _, p := range proxies {
		sys.injected += p.Accepted()
		p.Refuse(false)
	}
	sys.injected -= before
	return err
}

func (sys *system) stallBroker(ctx context.Context) error {
	sys.allowInFlight()
	sys.allowed.Refusals = true // there is no answer in time
	for _, p := range sys.brokerProxies() {
		sys.injected += p.Open()
		p.Stall()
	}
	err := sleep(ctx, sys.scaled(10*time.Second))
	for _, p := range sys.brokerProxies() {
		p.Reset() // the stalled bytes never arrive
		p.Resume()
	}
	return err
}

func (sys *system) resetBroker(ctx context.Context) error {
	for range 5 {
		sys.allowInFlight()
		for _, p := range sys.brokerProxies() {
			sys.injected += p.Open()
			p.Reset()
		}
		if err := sys.sleepRandom(ctx, sys.scaled(2*time.Second)); err != nil {
			return err
		}
	}
	return nil
}

func (sys *system) raiseMemoryAlarm(ctx context.Context) error {
	return sys.stopDuringAlarm(ctx, memoryAlarm)
}

func (sys *system) raiseDiskAlarm(ctx context.Context) error {
	return sys.stopDuringAlarm(ctx, diskAlarm)
}

func (sys *system) stopDuringAlarm(ctx context.Context, a alarm) (err error) {
	sys.allowInFlight()
	unblock, err := sys.blockPublishers(ctx, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unblock()) }()
	if err := sys.sleepRandom(ctx, sys.scaled(4*time.Second)); err != nil {
		return err
	}
	return sys.stopOneOfEach(ctx)
}

// alarm is a limit of the broker. Beyond it, the broker blocks publishers.
type alarm struct {
	command  string // of rabbitmqctl
	exceeded []string
	normal   string
}

var (
	memoryAlarm = alarm{"set_vm_memory_high_watermark", []string{"absolute", "1MB"}, "0.4"}
	diskAlarm   = alarm{"set_disk_free_limit", []string{"999999GB"}, "50MB"}
)

// blockPublishers raises an alarm. unblock clears it.
func (sys *system) blockPublishers(ctx context.Context, a alarm) (unblock func() error, err error) {
	if _, err := sys.rabbitmq.Ctl(ctx, append([]string{a.command}, a.exceeded...)...); err != nil {
		return nil, err
	}
	unblock = func() error {
		_, err := sys.rabbitmq.Ctl(context.WithoutCancel(ctx), a.command, a.normal)
		return err
	}
	blocks, err := sys.broker.IsBlocking(ctx)
	if err != nil {
		return nil, errors.Join(err, unblock())
	}
	if blocks {
		sys.injected++
	}
	return unblock, nil
}

// stopOneOfEach stops one replica of each service.
func (sys *system) stopOneOfEach(ctx context.Context) error {
	sys.load.SetMustSucceed(false) // a replica that stops may refuse requests
	ending, ctx := errgroup.WithContext(ctx)
	for _, r := range []*replica{sys.orderServices[0], sys.notificationServices[0]} {
		ending.Go(func() error { return sys.stopReplica(ctx, r) })
	}
	return ending.Wait()
}

func (sys *system) slowNetwork(ctx context.Context) error {
	sys.delayProxies(sys.brokerProxies(), 150*time.Millisecond)
	sys.delayProxies(sys.databaseProxies(), 20*time.Millisecond) // a transaction has several round trips
	err := sleep(ctx, sys.scaled(6*time.Second))
	sys.delayProxies(append(sys.brokerProxies(), sys.databaseProxies()...), 0)
	return err
}

func (sys *system) delayProxies(proxies []*servers.Proxy, delay time.Duration) {
	for _, p := range proxies {
		if delay > 0 {
			sys.injected += p.Open()
		}
		p.Slow(delay)
	}
}
