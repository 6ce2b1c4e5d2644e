package main

import (
	"context"

	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

// measureEndToEnd places orders at full speed through both services, and compares the number of
// e-mails with the number of orders. E-mails go to the log. Bare pgx places
// orders for comparison.
func (b *bench) measureEndToEnd(ctx context.Context) error {
	for run := range b.Runs {
		suite.Progress("endtoend, run %d of %d: %d s of orders at full speed", run+1, b.Runs, b.EndToEnd)
		if err := b.withBothServices(ctx, b.endToEndRun); err != nil {
			return err
		}
		if err := b.barePostRun(ctx); err != nil {
			return err
		}
	}
	b.addRatio("whole_way_ratio", "end_to_end_emails_per_s", "bare_pgx_per_s")
	return nil
}

// withBothServices starts both services, each with its own database, and calls use with the API's
// address.
func (b *bench) withBothServices(ctx context.Context, use func(ctx context.Context, orders, notifications database, address string) error) error {
	return b.withService(ctx, func(ctx context.Context, orders database, address string) error {
		notifications, err := b.newDatabase(ctx, migrations.Schema)
		if err != nil {
			return err
		}
		defer notifications.drop()
		notifications.broker = orders.broker
		s, err := b.serve(ctx, services.Notifications, "serve", notifications)
		if err != nil {
			return err
		}
		defer end(s) //nolint:contextcheck // cleanup must also run after ctx has ended
		if _, err := s.Await(ctx, services.TakingMessages); err != nil {
			return err
		}
		return use(ctx, orders, notifications, address)
	})
}

func (b *bench) endToEndRun(ctx context.Context, orders, notifications database, address string) error {
	clients, closeAll, err := dialAll(ctx, address)
	if err != nil {
		return err
	}
	defer closeAll()
	perSecond, err := placeFor(ctx, clients, seconds(b.EndToEnd))
	if err != nil {
		return err
	}
	placed, err := queryValue[float64](ctx, orders, "SELECT count(*)::float8 FROM orders")
	if err != nil {
		return err
	}
	sent, err := queryValue[float64](ctx, notifications, "SELECT count(*)::float8 FROM outbox_published")
	b.samples.add("end_to_end_ratio", sent/placed)
	b.samples.add("end_to_end_behind", placed-sent)
	b.samples.add("end_to_end_orders_per_s", perSecond)
	b.samples.add("end_to_end_emails_per_s", perSecond*sent/placed)
	return err
}
