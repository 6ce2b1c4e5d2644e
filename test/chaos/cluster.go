package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/chaos/broker"
	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

// brokerNodes is the number of nodes of a cluster. Two of them are a majority.
const brokerNodes = 3

func (env *environment) startCluster(ctx context.Context) (err error) {
	env.cluster, err = servers.NewRabbitMQCluster(filepath.Join(env.folder, "rabbitmq"), brokerNodes, process.WithParent) //nolint:contextcheck // it starts nothing
	if err != nil {
		return err
	}
	env.rabbitmq = env.cluster.Nodes[0]
	env.cluster.SetApplication("dead_letter_worker_publisher_confirm_timeout", "3000") // see startBroker
	if err := env.cluster.Start(ctx); err != nil {
		return err
	}
	for _, node := range env.cluster.Nodes {
		env.broker.URLs = append(env.broker.URLs, node.URL("/"))
	}
	return nil
}

// eachNode evaluates an Erlang expression on all nodes.
func (env *environment) eachNode(ctx context.Context, expression string) error {
	running, ctx := errgroup.WithContext(ctx)
	for _, node := range env.cluster.Nodes {
		running.Go(func() error {
			_, err := node.Ctl(ctx, "eval", expression)
			return err
		})
	}
	return running.Wait()
}

// startNodes starts the nodes that do not run. It returns when every queue would keep its majority
// if one node died.
func (env *environment) startNodes(ctx context.Context) error {
	if err := env.cluster.StartNodes(ctx); err != nil {
		return err
	}
	return env.cluster.AwaitQuorum(ctx, env.rabbitmq)
}

// repairCluster undoes all faults of a scenario that could not run.
func (env *environment) repairCluster(ctx context.Context) error {
	if err := env.cluster.StartNodes(ctx); err != nil {
		return err
	}
	for _, node := range env.cluster.Nodes {
		if err := env.cluster.Heal(ctx, node); err != nil {
			return err
		}
	}
	return env.startNodes(ctx)
}

// leaveOneNode removes all nodes but the first from the cluster, so that queues are declared on
// the first one only.
func (env *environment) leaveOneNode(ctx context.Context) error {
	for _, node := range env.cluster.Nodes[1:] {
		if err := env.cluster.Leave(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// queuesWith returns the number of queues with this many replicas, and the number of all queues.
func (env *environment) queuesWith(ctx context.Context, replicas int) (n, all int, err error) {
	list, err := env.rabbitmq.Ctl(ctx, "list_queues", "--no-table-headers", "name", "members")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(list) {
		if all++; strings.Count(line, "outbox") == replicas {
			n++
		}
	}
	return n, all, nil
}

// leaders returns the node with the leader of each queue.
func (env *environment) leaders(ctx context.Context, node *servers.RabbitMQServer) (map[string]string, error) {
	list, err := node.Ctl(ctx, "list_queues", "--no-table-headers", "name", "leader")
	if err != nil {
		return nil, err
	}
	leaders := map[string]string{}
	for line := range strings.Lines(list) {
		queue, leader, _ := strings.Cut(strings.TrimSpace(line), "\t")
		leaders[queue] = leader
	}
	if leaders[broker.Queue] == "" {
		return nil, fmt.Errorf("the queue %s has no leader: %q", broker.Queue, list)
	}
	return leaders, nil
}

// connectAllTo makes all services connect to one node.
func (sys *system) connectAllTo(ctx context.Context, node int) error {
	const connections = replicas + 2*replicas // a relay has one, and a consumer has two
	sys.allowInFlight()
	for other := range brokerNodes {
		for _, p := range sys.proxiesTo(other) {
			if other != node {
				p.Refuse(true)
				p.Cut()
				defer p.Refuse(false)
			}
		}
	}
	for deadline := time.Now().Add(maxWait / 3); countOpen(sys.proxiesTo(node)) < connections; {
		if time.Now().After(deadline) {
			sys.reportViolation("P4", "%d of %d connections came to node %d, the only one that can be reached", countOpen(sys.proxiesTo(node)), connections, node+1)
			return nil
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// allowNodeLoss permits duplicates of the events for which a relay gets no confirm when a node is
// gone. These are the events in flight, and those that it tries until the queues have new leaders:
// each worker tries one event at a time, and waits a second or more for its confirm.
func (sys *system) allowNodeLoss() {
	const tries = 10
	sys.allowInFlight()
	sys.allowed.Duplicates += replicas * relayWorkers * tries
}

// awaitFlow returns when an event that is committed from now on is published, and its e-mail is
// sent. It records how long that takes.
func (sys *system) awaitFlow(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	var since time.Time
	if err := sys.orderDB.QueryRow(ctx, "SELECT now()").Scan(&since); err != nil {
		return err
	}
	for {
		var published []string
		err := sys.orderDB.QueryRow(ctx, "SELECT coalesce(array_agg(id::text), '{}') FROM outbox_status WHERE status = 'published' AND created_at > $1", since).Scan(&published)
		if err != nil {
			return err
		}
		settled := 0
		if err := sys.notificationDB.QueryRow(ctx, settledSQL, published).Scan(&settled); err != nil {
			return err
		}
		if settled > 0 {
			sys.takeover = max(sys.takeover, time.Since(began))
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			sys.reportViolation("P4", "no new order has its e-mail %s after the fault", time.Since(began).Round(time.Second))
			return nil //nolint:nilerr // the checker reports it
		}
	}
}
