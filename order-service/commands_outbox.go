package main

import (
	"context"
	"errors"
	"os"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/outboxcli"
	"example.com/transactional-outbox/outbox/publish"
)

// operators has the operators' commands on the events.
var operators = outboxcli.Service{Name: service, Schema: schema, Topic: "order.created", Republishes: true}

var operateOutbox = command.WithArguments(service, check, func(args []string) (func(context.Context, config) error, error) {
	run, err := operators.Outbox(args, os.Stdout)
	return func(ctx context.Context, c config) error { return run(ctx, c.servers()) }, err
})

// servers are what the commands connect to. Only republish needs the broker, and AMQP_URL.
func (c config) servers() outboxcli.Servers {
	return outboxcli.Servers{
		DatabaseURL: c.DatabaseURL.Reveal(), ConfirmTimeout: c.RelayConfirmTimeout,
		Broker: func() (publish.Destination, error) {
			broker := c.broker()
			broker.ConnectionName = service + " republish"
			return broker, errors.Join(c.CheckBroker()...)
		},
	}
}
