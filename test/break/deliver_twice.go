package main

import (
	"context"
	"time"
)

var deliverTwice = experiment{
	name:    "deliver-twice",
	breaks:  "Delivers a processed message three more times.",
	promise: "at-least-once delivery has an exactly-once effect (P5), and the customer gets one e-mail (P6).",
	description: "`order-service outbox republish`" + ` publishes the event again, with the same id. You see that
notification-service counts three duplicates, and does nothing else.`,
	watch:  "http://localhost:4100/audit shows each republishing; http://localhost:4101/ counts the e-mails",
	result: "the message was delivered four times, and had one effect.",
	run: func(ctx context.Context, l *lab) error {
		l.step("place an order, and wait for its e-mail")
		if err := l.place(ctx, 1); err != nil {
			return err
		}
		if err := l.awaitArrival(ctx); err != nil {
			return err
		}
		before, err := metric(ctx, notificationService, duplicates)
		if err != nil {
			return err
		}
		l.observe("%s %d", duplicates, before)
		if err := l.deliverAgain(ctx, before, 3); err != nil {
			return err
		}
		return l.verifyNoSecondEffect(ctx, before, 3)
	},
}

func (l *lab) deliverAgain(ctx context.Context, before, times int) error {
	var published time.Time
	const query = "SELECT published_at FROM outbox_status WHERE aggregate = 'order' AND aggregate_id = ANY ($1)"
	if err := l.orders.QueryRow(ctx, query, l.placed).Scan(&published); err != nil {
		return err
	}
	since, until := published.UTC().Format(time.RFC3339Nano), published.UTC().Add(time.Microsecond).Format(time.RFC3339Nano)
	l.step("%d times: order-service outbox republish --since %s --until %s", times, since, until)
	for range times {
		if _, err := l.service(ctx, orderService, "outbox", "republish", "--since", since, "--until", until); err != nil {
			return err
		}
	}
	return l.await(ctx, maxWait, func(ctx context.Context) (string, error) {
		return l.missingCopies(ctx, before, times)
	})
}
