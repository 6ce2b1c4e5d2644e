package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

// measureEndToEnd places orders at full speed through both services, and compares the number of
// e-mails with the number of orders, halfway and at the end. E-mails go to the log. Bare pgx places
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
	length := seconds(b.EndToEnd)
	var perSecond float64
	both, placing := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		perSecond, err = placeFor(placing, clients, length)
		return err
	})
	both.Go(func() error {
		select {
		case <-time.After(length / 2):
		case <-placing.Done():
			return nil
		}
		_, behind, err := compareEmails(ctx, orders, notifications)
		b.samples.add("end_to_end_behind_at_half_time", behind)
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	ratio, behind, err := compareEmails(ctx, orders, notifications)
	b.samples.add("end_to_end_ratio", ratio)
	b.samples.add("end_to_end_behind_at_the_end", behind)
	b.samples.add("end_to_end_orders_per_s", perSecond)
	b.samples.add("end_to_end_emails_per_s", perSecond*ratio)
	return err
}

// compareEmails returns the share of the orders whose e-mail is sent, and the number of the others.
func compareEmails(ctx context.Context, orders, notifications database) (ratio, behind float64, err error) {
	placed, err := queryValue[float64](ctx, orders, "SELECT count(*)::float8 FROM orders")
	if err != nil {
		return 0, 0, err
	}
	sent, err := queryValue[float64](ctx, notifications, "SELECT count(*)::float8 FROM outbox_published")
	return sent / placed, placed - sent, err
}
