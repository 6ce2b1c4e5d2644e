package main

import (
	"context"
	"errors"
	"fmt"

	"example.com/transactional-outbox/internal/stage"
	"example.com/transactional-outbox/notification-service/internal/consumer"
	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/notification-service/migrations"
)

// ready returns nil while messages flow, and otherwise everything that they wait for.
func (p parts) ready(ctx context.Context) error {
	errs := []error{p.consuming.Ready(), p.publishing.Ready()}
	if err := p.db.Ready(ctx, migrations.Schema); err != nil {
		errs = append(errs, fmt.Errorf("waiting for the database: %w", err))
	}
	for _, dependency := range p.messages.Unavailable() {
		errs = append(errs, fmt.Errorf("waiting for %s: its gate is closed, and messages are held", dependency))
	}
	return errors.Join(errs...)
}

// waitsFor returns what messages wait for, for the page.
func (p parts) waitsFor() (waits []string) {
	for _, s := range []*stage.Stage{p.consuming, p.publishing} {
		if what := s.WaitsFor(); what != stage.Nothing {
			waits = append(waits, what)
		}
	}
	for _, dependency := range p.messages.Unavailable() {
		waits = append(waits, inWords[dependency])
	}
	return waits
}

// inWords are the names of the gates, for people.
var inWords = map[string]string{consumer.Database: "the database", mailer.MailServer: "the mail server"}
