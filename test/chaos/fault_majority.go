package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/transactional-outbox/test/chaos/broker"
)

// refuseWithoutMajority kills the nodes with the leaders of the queues that get the events. The
// last node refuses events at once. Meanwhile consumers hold messages that need a copy.
func (sys *system) refuseWithoutMajority(ctx context.Context) error {
	last, err := sys.nodeThat(ctx, func(leads bool) bool { return !leads })
	if err != nil {
		return err
	}
	return sys.loseMajority(ctx, last, func() error {
		if err := sys.awaitRefusals(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, sys.scaled(15*time.Second)); err != nil {
			return err
		}
		return sys.countRefusedCopies(ctx)
	})
}

// stallWithoutMajority kills all nodes but one that leads a queue. This node takes events and never
// confirms them.
func (sys *system) stallWithoutMajority(ctx context.Context) error {
	last, err := sys.nodeThat(ctx, func(leads bool) bool { return leads })
	if err != nil {
		return err
	}
	sys.allowed.Refusals = true // there is no answer in time
	return sys.loseMajority(ctx, last, func() error {
		if err := sleep(ctx, sys.scaled(20*time.Second)); err != nil {
			return err
		}
		unconfirmed, err := sys.unconfirmed(ctx)
		sys.injected += unconfirmed
		return err
	})
}

// nodeThat returns the number of a node: wanted is called with whether the node leads one of the
// queues that get the events.
func (sys *system) nodeThat(ctx context.Context, wanted func(leads bool) bool) (int, error) {
	leaders, err := sys.leaders(ctx, sys.rabbitmq)
	if err != nil {
		return 0, err
	}
	for i, node := range sys.cluster.Nodes {
		if wanted(node.Node() == leaders[broker.Queue] || node.Node() == leaders[broker.Tap]) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no node fits: %v", leaders)
}

// loseMajority kills all nodes but the last one, which goes on without a majority, as every node
// does in RabbitMQ 4 with Khepri. It calls meanwhile during the outage.
func (sys *system) loseMajority(ctx context.Context, last int, meanwhile func() error) (err error) {
	if err := sys.eachNode(ctx, "application:set_env(rabbit, cluster_partition_handling, ignore)."); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, sys.eachNode(ctx, "application:set_env(rabbit, cluster_partition_handling, pause_minority)."))
	}()
	if err := sys.connectAllTo(ctx, last); err != nil {
		return err
	}
	for _, p := range sys.notifyToDB {
		p.Stall()
		defer p.Resume()
	}
	if err := errors.Join(sleep(ctx, time.Second), sys.killAllBut(ctx, last)); err != nil { // they have messages now
		return err
	}
	err = sys.refusingOrders(ctx, 1, func() error { // which need a copy
		for _, p := range sys.notifyToDB {
			p.Resume()
		}
		return meanwhile()
	})
	if err := errors.Join(err, sys.startNodes(ctx)); err != nil {
		return err
	}
	return sys.awaitFlow(ctx)
}

// pauseMajority kills two of three nodes. The last one pauses, and refuses connections.
func (sys *system) pauseMajority(ctx context.Context) error {
	last := sys.random.IntN(brokerNodes)
	if err := sys.connectAllTo(ctx, last); err != nil {
		return err
	}
	before := countOpen(sys.proxiesTo(last))
	if err := sys.killAllBut(ctx, last); err != nil {
		return err
	}
	if err := sleep(ctx, sys.scaled(8*time.Second)); err != nil {
		return err
	}
	sys.injected += before - countOpen(sys.proxiesTo(last))
	if err := sys.startNodes(ctx); err != nil {
		return err
	}
	return sys.awaitFlow(ctx)
}

func (sys *system) killAllBut(ctx context.Context, last int) error {
	sys.allowInFlight()
	for i, node := range sys.cluster.Nodes {
		if i == last {
			continue
		}
		if err := node.Kill(); err != nil { //nolint:contextcheck // it is fast, and never interrupted
			return err
		}
	}
	return ctx.Err()
}

// awaitRefusals waits until the broker has refused events of each relay.
func (sys *system) awaitRefusals(ctx context.Context) error {
	const refused = "outbox_refused_total"
	sys.allowed.Refusals = true
	for _, r := range sys.orderServices {
		for deadline := time.Now().Add(recoveryTime); ; {
			value, err := r.metric(ctx, refused)
			if err != nil {
				return err
			}
			if value > 0 {
				sys.injected++
				break
			}
			if time.Now().After(deadline) {
				sys.reportViolation("harness", "%s: %s is %g, %s after the majority was lost", r.name, refused, value, recoveryTime)
				break
			}
			if err := sleep(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// countRefusedCopies counts the failed attempts at a copy.
func (sys *system) countRefusedCopies(ctx context.Context) error {
	for _, r := range sys.notificationServices {
		failures, err := r.metric(ctx, "consumer_copy_failures_total")
		if err != nil {
			return err
		}
		if failures == 0 {
			sys.reportViolation("harness", "%s has no message that needs a copy", r.name)
		}
		sys.injected += int(failures)
	}
	return nil
}

// unconfirmed counts the publishes without a confirm or a refusal.
func (sys *system) unconfirmed(ctx context.Context) (n int, err error) {
	for _, r := range sys.orderServices {
		value, err := r.metric(ctx, "outbox_publish_errors_total")
		if err != nil {
			return 0, err
		}
		n += int(value)
	}
	return n, nil
}

// allowNotTaken permits duplicates of the events that were refused or not confirmed. A node without
// a majority may keep them in its log, and its queues get them when the others are back.
func (sys *system) allowNotTaken(ctx context.Context) error {
	n, err := sys.unconfirmed(ctx)
	if err != nil {
		return err
	}
	sys.allowed.Duplicates += n
	_, err = sys.allowRefusedCopies(ctx)
	return err
}
