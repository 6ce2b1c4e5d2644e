package main

import (
	"context"
	"os"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/outboxcli"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/publish"
)

// outboxOfEmails is the outbox as the operators' commands know it: its events are e-mails.
var outboxOfEmails = outboxcli.Service{
	Name: service, Destination: "the mail server", Topic: "example.com", Masked: true, Advice: mailAdvice,
	Again: "Customers get these e-mails again, each with the Message-ID that it had.",
}

// mailAdvice says what the user can do about an e-mail that the mail server did not take.
func mailAdvice(o publish.Outcome) string {
	if o == publish.Invalid {
		return "its address cannot be sent to: correct it, and discard the e-mail"
	}
	return "check that the mail server that SMTP_URL names runs, and what it says"
}

// emailTimeout is how long republish waits for the answers to a page of e-mails.
const emailTimeout = 10 * time.Minute

// operateOutbox runs the operators' commands on the e-mails.
var operateOutbox = command.WithArguments(service, check, func(args []string) (func(context.Context, config) error, error) {
	action, err := outboxOfEmails.Parse(args, os.Stdout)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c config) error {
		return outboxOfEmails.Run(ctx, c.DatabaseURL.Reveal(), migrations.Schema, c.republishTo(), emailTimeout, action)
	}, nil
})

// republishTo is where republish sends. The other commands work without a mail server, too.
func (c config) republishTo() outboxcli.Destination {
	server, err := c.mailServer()
	if err != nil {
		return outboxcli.Unusable(err)
	}
	return outboxcli.Once("the mail server that SMTP_URL names", server, cli.SessionTimeout)
}
