package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"example.com/transactional-outbox/test/chaos/broker"
)

// vanishLeader makes one machine silent: its node leads the consumer's queue, and all services are
// connected to it. The node is frozen, so that the other nodes get no answer either. They notice it
// after net_ticktime: 60 s by default, 75 s at most. Until then they do not finish the handshake of
// a new connection. A service then needs one attempt at all nodes, 15 s at most. So the limit of
// awaitFlow, maxWait, is the bound.
func (sys *system) vanishLeader(ctx context.Context) error {
	leaders, err := sys.leaders(ctx, sys.rabbitmq)
	if err != nil {
		return err
	}
	node := 0
	for i, n := range sys.cluster.Nodes {
		if n.Node() == leaders[broker.Queue] {
			node = i
		}
	}
	if err := sys.connectAllTo(ctx, node); err != nil {
		return err
	}
	sys.allowNodeLoss()
	sys.vanish(sys.proxiesTo(node)...)
	if err := sys.cluster.Nodes[node].Freeze(); err != nil {
		return err
	}
	if err := errors.Join(sys.awaitFlow(ctx), sleep(ctx, sys.scaled(4*time.Second))); err != nil {
		return err
	}
	if err := sys.cluster.Nodes[node].Kill(); err != nil { //nolint:contextcheck // it is fast, and never interrupted
		return err
	}
	for p := range slices.Values(sys.proxiesTo(node)) {
		p.Reset() // the bytes of the dead node never arrive
		p.Resume()
	}
	return sys.startNodes(ctx)
}
