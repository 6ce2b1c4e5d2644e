package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// allowInFlight permits duplicates of all events in flight: the relays lose their confirms.
func (sys *system) allowInFlight() { sys.allowed.Duplicates += replicas * inFlight }

func (sys *system) killBroker(ctx context.Context) error {
	sys.allowInFlight()
	if err := sys.rabbitmq.Kill(); err != nil { //nolint:contextcheck // it is fast, and never interrupted
		return err
	}
	if !sys.rabbitmq.Running() {
		sys.injected++
	}
	return errors.Join(sys.requireOrders(ctx), sys.startBroker(ctx))
}

func (sys *system) refuseBroker(ctx context.Context) error {
	sys.allowInFlight()
	mend := sys.refuse(sys.brokerProxies())
	defer mend()
	return errors.Join(sleep(ctx, sys.scaled(12*time.Second)), sys.requireOrders(ctx))
}

func (sys *system) stallBroker(ctx context.Context) error {
	return sys.whileStalled(func() error {
		return errors.Join(sleep(ctx, sys.scaled(10*time.Second)), sys.requireOrders(ctx))
	})
}

// whileStalled runs f while the network drops all packets to and from the broker.
func (sys *system) whileStalled(f func() error) error {
	sys.allowInFlight()
	sys.vanish(sys.brokerProxies()...)
	err := f()
	for _, p := range sys.brokerProxies() {
		p.Reset() // the stalled bytes never arrive
		p.Resume()
	}
	return err
}

func (sys *system) stopDuringAlarm(ctx context.Context) (err error) {
	sys.allowInFlight()
	unblock, err := sys.blockPublishers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unblock()) }()
	return errors.Join(sys.requireOrders(ctx), sys.stopOneOfEach(ctx))
}

// blockPublishers raises the memory alarm, in which the broker blocks publishers. unblock ends it.
func (sys *system) blockPublishers(ctx context.Context) (unblock func() error, err error) {
	if err := sys.rabbitmq.Alarm(ctx, true); err != nil {
		return nil, err
	}
	unblock = func() error { return sys.rabbitmq.Alarm(context.WithoutCancel(ctx), false) }
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
	ending, ctx := errgroup.WithContext(ctx)
	for _, r := range []*replica{sys.orderServices[0], sys.notificationServices[0]} {
		ending.Go(func() error { return sys.stopReplica(ctx, r) })
	}
	return ending.Wait()
}

// killNode kills the node that all services are connected to, and starts it again when the others
// have taken over.
func (sys *system) killNode(ctx context.Context) error {
	node := sys.random.IntN(brokerNodes)
	return sys.loseNode(ctx, node, sys.cluster.Nodes[node].Kill, func() error { return sys.startNodes(ctx) })
}

// partition cuts off the node that all services are connected to. This node is in the minority, so
// it pauses and closes its connections.
func (sys *system) partition(ctx context.Context) error {
	i := sys.random.IntN(brokerNodes)
	node := sys.cluster.Nodes[i]
	return sys.loseNode(ctx, i, func() error { return sys.cluster.Partition(ctx, node) }, func() error {
		return errors.Join(sys.cluster.Heal(ctx, node), sys.cluster.AwaitQuorum(ctx, sys.rabbitmq))
	})
}

// loseNode connects all services to a node, takes it away, and brings it back when events are
// published and have their effect again. Until then, any event that was stored may be sent twice. A
// broker that has no leader of a queue refuses what a new channel sends there, or gives no answer.
func (sys *system) loseNode(ctx context.Context, node int, lose, mend func() error) error {
	if err := sys.connectAllTo(ctx, node); err != nil {
		return err
	}
	since, err := sys.now(ctx)
	if err != nil {
		return err
	}
	sys.allowInFlight()
	sys.allowed.Refusals = true
	sys.injected += countOpen(sys.proxiesTo(node))
	if err := lose(); err != nil {
		return err
	}
	err = errors.Join(sys.requireFlow(ctx), sys.requireAllEffects(ctx, "P5", "after a broker was lost"), sys.allowRepeatsSince(ctx, since))
	sys.injected -= countOpen(sys.proxiesTo(node))
	return errors.Join(err, mend())
}

// connectAllTo makes all services connect to one node.
func (sys *system) connectAllTo(ctx context.Context, node int) error {
	const connections = replicas + 2*replicas // a relay has one, and a consumer has two
	sys.allowInFlight()
	for other := range brokerNodes {
		for _, p := range sys.proxiesTo(other) {
			if other != node {
				p.Refuse(true)
				sys.injected += p.Open()
				p.Cut()
				defer p.Refuse(false)
			}
		}
	}
	return sys.require(ctx, "P4", "with one broker that can be reached", func() (string, error) {
		if countOpen(sys.proxiesTo(node)) < connections {
			return "not all services have connected to it", nil
		}
		return "", nil
	})
}
