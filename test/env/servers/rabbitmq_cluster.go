package servers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/env/process"
)

// RabbitMQCluster is a cluster of private brokers on 127.0.0.1. Each node has its own folder, ports
// and process. They share one epmd and one cookie. A node that is in a minority pauses.
//
// Partition needs neither root nor network namespaces: it changes the cookie with which a node
// speaks to the others. So it works on a laptop and in CI. The connections between the nodes end
// at once. A network that drops packets would end them after a minute (net_ticktime).
type RabbitMQCluster struct{ Nodes []*RabbitMQServer }

// NewRabbitMQCluster returns a cluster that does not run yet, in a new folder.
func NewRabbitMQCluster(path string, nodes int, lifetime process.Lifetime, plugins ...string) (*RabbitMQCluster, error) {
	c := &RabbitMQCluster{}
	for i := range nodes {
		var first *RabbitMQServer
		if i > 0 {
			first = c.Nodes[0]
		}
		name := fmt.Sprintf("outbox%d@localhost", i+1)
		node, err := newRabbitMQNode(filepath.Join(path, fmt.Sprint("node-", i+1)), lifetime, name, first, plugins)
		if err != nil {
			return c, errors.Join(err, c.Close())
		}
		node.extraSettings = "cluster_partition_handling = pause_minority\n"
		c.Nodes = append(c.Nodes, node)
	}
	return c, nil
}

// SetApplication sets a key of RabbitMQ's Erlang application for all later starts.
func (c *RabbitMQCluster) SetApplication(key, value string) {
	for _, node := range c.Nodes {
		node.extraErlang += " -rabbit " + key + " " + value
	}
}

// Start starts all nodes for the first time, and joins them.
func (c *RabbitMQCluster) Start(ctx context.Context) error {
	if err := c.StartNodes(ctx); err != nil {
		return err
	}
	for _, node := range c.Nodes[1:] {
		if err := c.Join(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// StartNodes starts the nodes that do not run. It returns when all of them accept connections. The
// nodes start at the same time, because some wait for others: the first one needs the node that was
// stopped last.
func (c *RabbitMQCluster) StartNodes(ctx context.Context) error {
	if !c.Nodes[0].epmd.Alive() { // the first start, which may change the port of epmd
		if err := c.Nodes[0].Start(ctx); err != nil {
			return err
		}
	}
	starting, ctx := errgroup.WithContext(ctx)
	for _, node := range c.Nodes {
		starting.Go(func() error { return node.Start(ctx) })
	}
	return starting.Wait()
}

// Join makes a node, which is alone, a member of the first node's cluster.
func (c *RabbitMQCluster) Join(ctx context.Context, node *RabbitMQServer) error {
	return node.ctlEach(ctx, []string{"stop_app"}, []string{"join_cluster", c.Nodes[0].node}, []string{"start_app"})
}

func (s *RabbitMQServer) ctlEach(ctx context.Context, commands ...[]string) error {
	for _, command := range commands {
		if _, err := s.Ctl(ctx, command...); err != nil {
			return err
		}
	}
	return nil
}

// Node returns the name of the node for RabbitMQ's commands.
func (s *RabbitMQServer) Node() string { return s.node }

// Partition cuts a node off from the others.
func (c *RabbitMQCluster) Partition(ctx context.Context, node *RabbitMQServer) error {
	_, err := node.Ctl(ctx, "eval", "[begin erlang:set_cookie(N, cut_off), erlang:disconnect_node(N) end || N <- ["+c.othersThan(node)+"]].")
	return err
}

// Heal connects a node with the others again, and returns when it has resumed.
func (c *RabbitMQCluster) Heal(ctx context.Context, node *RabbitMQServer) error {
	_, err := node.Ctl(ctx, "eval", "[begin erlang:set_cookie(N, erlang:get_cookie()), net_kernel:connect_node(N) end || N <- ["+c.othersThan(node)+"]].")
	if err != nil {
		return err
	}
	_, err = node.Ctl(ctx, "await_startup")
	return err
}

func (c *RabbitMQCluster) othersThan(node *RabbitMQServer) string {
	var names []string
	for _, other := range c.Nodes {
		if other != node {
			names = append(names, other.node)
		}
	}
	return strings.Join(names, ",")
}

// AwaitQuorum returns when each queue would keep its majority if this node stopped.
func (c *RabbitMQCluster) AwaitQuorum(ctx context.Context, node *RabbitMQServer) error {
	_, err := node.runTool(ctx, "rabbitmq-upgrade", "await_online_quorum_plus_one")
	return err
}

// Close ends all nodes and their epmd, and releases their ports. It keeps the folders.
func (c *RabbitMQCluster) Close() error {
	var errs []error
	for _, node := range slices.Backward(c.Nodes) { // the first one has the epmd
		errs = append(errs, node.Close())
	}
	return errors.Join(errs...)
}
