package main

import (
	"context"
	"time"
)

// killNode kills the node that all services are connected to, and starts it again later.
func (sys *system) killNode(ctx context.Context) error {
	return sys.killNodeNumber(ctx, sys.random.IntN(brokerNodes))
}

func (sys *system) killNodeNumber(ctx context.Context, node int) error {
	if err := sys.connectAllTo(ctx, node); err != nil {
		return err
	}
	sys.allowNodeLoss()
	sys.injected += countOpen(sys.proxiesTo(node))
	if err := sys.cluster.Nodes[node].Kill(); err != nil { //nolint:contextcheck // it is fast, and never interrupted
		return err
	}
	if err := sys.awaitFlow(ctx); err != nil {
		return err
	}
	if err := sleep(ctx, sys.scaled(4*time.Second)); err != nil {
		return err
	}
	return sys.startNodes(ctx)
}

// upgradeNodes stops and starts each node in turn, as an upgrade does. After each start it waits
// until every queue would keep its majority if the next node stopped.
func (sys *system) upgradeNodes(ctx context.Context) error {
	for i, node := range sys.cluster.Nodes {
		sys.allowNodeLoss()
		sys.injected += countOpen(sys.proxiesTo(i))
		if err := node.Stop(ctx); err != nil {
			return err
		}
		if err := sys.awaitFlow(ctx); err != nil {
			return err
		}
		if err := sys.startNodes(ctx); err != nil {
			return err
		}
	}
	return nil
}

// partition cuts off the node that all services are connected to. This node is in the minority, so
// it pauses and closes its connections.
func (sys *system) partition(ctx context.Context) error {
	minority := sys.random.IntN(brokerNodes)
	if err := sys.connectAllTo(ctx, minority); err != nil {
		return err
	}
	sys.allowNodeLoss()
	before := countOpen(sys.proxiesTo(minority))
	if err := sys.cluster.Partition(ctx, sys.cluster.Nodes[minority]); err != nil {
		return err
	}
	if err := sys.awaitFlow(ctx); err != nil {
		return err
	}
	if err := sleep(ctx, sys.scaled(4*time.Second)); err != nil {
		return err
	}
	sys.injected += before - countOpen(sys.proxiesTo(minority))
	if err := sys.cluster.Heal(ctx, sys.cluster.Nodes[minority]); err != nil {
		return err
	}
	return sys.cluster.AwaitQuorum(ctx, sys.rabbitmq)
}

// moveLeaders drains each node in turn: its leaders move to other nodes, and its connections are
// closed. At the end the leaders are spread again.
func (sys *system) moveLeaders(ctx context.Context) error {
	for i, node := range sys.cluster.Nodes {
		before, err := sys.leaders(ctx, node)
		if err != nil {
			return err
		}
		sys.allowNodeLoss()
		if _, err := node.Upgrade(ctx, "drain"); err != nil {
			return err
		}
		if err := sys.awaitFlow(ctx); err != nil {
			return err
		}
		after, err := sys.leaders(ctx, sys.cluster.Nodes[(i+1)%brokerNodes])
		if err != nil {
			return err
		}
		for queue, leader := range before {
			if after[queue] != leader {
				sys.injected++
			}
		}
		if _, err := node.Upgrade(ctx, "revive"); err != nil {
			return err
		}
	}
	sys.allowNodeLoss()
	_, err := sys.rabbitmq.Queues(ctx, "rebalance", "quorum")
	return err
}

// joinNodes lets two nodes join a cluster of one. Each queue has one replica until rabbitmq-queues
// grow gives it more. Then the first node is killed.
func (sys *system) joinNodes(ctx context.Context) error {
	for _, node := range sys.cluster.Nodes[1:] {
		if err := sys.cluster.Join(ctx, node); err != nil {
			return err
		}
	}
	alone, _, err := sys.queuesWith(ctx, 1)
	if err != nil {
		return err
	}
	for _, node := range sys.cluster.Nodes[1:] {
		if _, err := sys.rabbitmq.Queues(ctx, "grow", node.Node(), "all"); err != nil {
			return err
		}
	}
	grown, all, err := sys.queuesWith(ctx, brokerNodes)
	if err != nil {
		return err
	}
	if grown < all {
		sys.reportViolation("harness", "%d of %d queues have %d replicas", grown, all, brokerNodes)
	}
	if err := sys.cluster.AwaitQuorum(ctx, sys.rabbitmq); err != nil {
		return err
	}
	err = sys.killNodeNumber(ctx, 0)
	if alone == 0 {
		sys.injected = 0 // no queue had to be grown
	}
	return err
}
