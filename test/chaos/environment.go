package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

// environment has the servers and the programs that all scenarios share.
type environment struct {
	options
	folder   string
	postgres *servers.PostgresServer
	rabbitmq *servers.RabbitMQServer  // the only node, or the first of the cluster
	cluster  *servers.RabbitMQCluster // nil if there is only one node
	broker   broker.Broker
	roles    map[string]servers.Roles // by service, in the databases of the scenario
}

// prepare builds the services, starts the servers, and makes the templates of the databases.
func prepare(ctx context.Context, o options, chosen []scenario) (env *environment, err error) {
	env = &environment{options: o}
	defer func() { //nolint:contextcheck // cleanup must also run after ctx has ended
		if err != nil {
			env.stopServers()
		}
	}()
	if env.folder, err = os.MkdirTemp("", "chaos-"); err != nil {
		return env, err
	}
	if err := os.Chmod(env.folder, 0o755); err != nil { //nolint:gosec // as root, PostgreSQL runs as another user
		return env, err
	}
	suite.Progress("building the services of %s, starting PostgreSQL and RabbitMQ in %s", o.Source, env.folder)
	if err := env.buildFor(ctx, chosen); err != nil {
		return env, err
	}
	if err := env.startServers(ctx, slices.ContainsFunc(chosen, func(s scenario) bool { return s.threeBrokers })); err != nil {
		return env, err
	}
	return env, env.makeTemplates(ctx)
}

func (env *environment) startServers(ctx context.Context, threeBrokers bool) (err error) {
	if env.postgres, err = servers.NewPostgres(filepath.Join(env.folder, "postgres"), process.WithParent); err != nil {
		return err
	}
	if err := env.postgres.Start(ctx); err != nil {
		return err
	}
	if threeBrokers {
		if err := env.startCluster(ctx); err != nil {
			return err
		}
		return env.setPermissions(ctx)
	}
	if env.rabbitmq, err = servers.NewRabbitMQ(filepath.Join(env.folder, "rabbitmq"), process.WithParent); err != nil {
		return err
	}
	if err := env.startBroker(ctx); err != nil {
		return err
	}
	env.broker = broker.Broker{URLs: []string{env.rabbitmq.URL("/")}} // Start may have changed the port
	return env.setPermissions(ctx)
}

// setPermissions sets the services' permissions at the broker.
func (env *environment) setPermissions(ctx context.Context) error {
	return env.rabbitmq.CreateVhost(ctx, env.Source, "/")
}

// startBroker starts the broker. It shortens the time after which a queue dead-letters a message
// again that was not confirmed: the default of three minutes is too long for a scenario.
func (env *environment) startBroker(ctx context.Context) error {
	if env.cluster != nil {
		return env.repairCluster(ctx)
	}
	if err := env.rabbitmq.Start(ctx); err != nil {
		return err
	}
	_, err := env.rabbitmq.Ctl(ctx, "eval", "application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 3000).")
	return err
}

// stopServers stops the servers and removes everything.
func (env *environment) stopServers() {
	var errs []error
	if env.cluster != nil {
		errs = append(errs, env.cluster.Close())
	} else if env.rabbitmq != nil {
		errs = append(errs, env.rabbitmq.Close())
	}
	if env.postgres != nil {
		errs = append(errs, env.postgres.Close())
	}
	errs = append(errs, os.RemoveAll(env.folder))
	if err := errors.Join(errs...); err != nil {
		suite.Progress("cleaning up: %v", err)
	}
}

// Additional builds of the services, and their folders.
const (
	crashing  = "crashing"   // with crash points
	wrongTime = "wrong-time" // with a clock that CLOCK_AHEAD shifts
)

// buildFor builds the services for the scenarios.
func (env *environment) buildFor(ctx context.Context, chosen []scenario) error {
	made := map[string]bool{}
	for _, build := range append([]scenario{{}}, chosen...) {
		if made[build.build] {
			continue
		}
		made[build.build] = true
		if err := env.build(ctx, build.build); err != nil {
			return err
		}
	}
	return nil
}

func (env *environment) build(ctx context.Context, build string) error {
	var flags []string
	switch build {
	case crashing:
		flags = append(flags, "-tags", "crashpoints")
	case wrongTime:
		overlay, err := env.writeTimeOverlay(ctx)
		if err != nil {
			return fmt.Errorf("changing package time: %w", err)
		}
		flags = append(flags, "-overlay", overlay)
	}
	if env.Race {
		flags = append(flags, "-race")
	}
	return services.Build(ctx, env.Source, filepath.Join(env.folder, build), flags...)
}

// resetTopology deletes the queues and exchanges of the scenario before.
func (env *environment) resetTopology(ctx context.Context) error {
	queues := append([]string{broker.Queue, broker.DeadLetters, broker.Tap, queue}, retryQueues()...)
	exchanges := append([]string{broker.Exchange, deadLetterExchange, broker.Requeue}, retryQueues()...)
	return errors.Join(env.broker.DeleteQueues(ctx, queues...), env.broker.DeleteExchanges(ctx, exchanges...), env.broker.BindTap(ctx))
}

const deadLetterExchange = "notification-service.dlx"

// retryQueues returns the names of the retry queues, which are also the names of their exchanges.
func retryQueues() (names []string) {
	for _, delay := range retryDelays {
		names = append(names, broker.Queue+".retry."+delay)
	}
	return names
}

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
