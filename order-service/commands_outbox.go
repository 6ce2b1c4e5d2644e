package main

import (
	"context"
	"errors"
	"os"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/outboxcli"
)

// outboxOfOrders is the outbox as the operators' commands know it.
var outboxOfOrders = outboxcli.Service{
	Name: service, Destination: "the broker", Topic: "order.created", Advice: cli.Advice,
	Again: `It is safe to repeat, because consumers know the ids that they have had. Start the
consumers first, so that their queues exist.`,
}

// outboxCommands are the operators' commands on the outbox.
var outboxCommands = command.WithArguments(service, check, func(args []string) (func(context.Context, config) error, error) {
	action, err := outboxOfOrders.Parse(args, os.Stdout)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c config) error { return c.runAction(ctx, action) }, nil
})

func (c config) runAction(ctx context.Context, action outboxcli.Action) error {
	return outboxOfOrders.Run(ctx, c.DatabaseURL.Reveal(), schema, c.republishTo(), c.RelayConfirmTimeout, action)
}

// republishTo needs AMQP_URL only when it is used: the other actions have no broker.
func (c config) republishTo() outboxcli.Destination {
	if errs := c.CheckBroker(); len(errs) > 0 {
		return outboxcli.Unusable(errors.Join(errs...))
	}
	broker := c.broker()
	broker.ConnectionName = service + " republish"
	return outboxcli.Once("the broker that AMQP_URL names", broker, cli.SessionTimeout)
}
