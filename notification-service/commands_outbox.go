package main

import (
	"context"
	"io"
	"os"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/outboxcli"
	"example.com/transactional-outbox/notification-service/migrations"
)

// operators has the operators' commands on the e-mails, and on the dead letters. It has no
// republish: that would send e-mails to all customers again.
var operators = outboxcli.Service{Name: service, Schema: migrations.Schema, Topic: "example.com", Masked: true}

var (
	operateOutbox      = forOperators(check, operators.Outbox)
	operateDeadLetters = forOperators(checkWithBroker, operators.DeadLetters)
)

func forOperators(
	check func(config) []error, parse func([]string, io.Writer) (outboxcli.Action, error),
) func(context.Context, []string) error {
	return command.WithArguments(service, check, func(args []string) (func(context.Context, config) error, error) {
		run, err := parse(args, os.Stdout)
		return func(ctx context.Context, c config) error {
			return run(ctx, outboxcli.Servers{DatabaseURL: c.DatabaseURL.Reveal(), AMQPURL: c.AMQPURL.Reveal()})
		}, err
	})
}
