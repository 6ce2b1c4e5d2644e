package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/chaos/broker"
	"example.com/transactional-outbox/chaos/checker"
	"example.com/transactional-outbox/chaos/mailserver"
)

// bindNobody leaves events without any queue: they must stay in the outbox.
func (y *system) bindNobody(ctx context.Context) error {
	y.allowed.TapGap = true
	for _, r := range y.notifications {
		if err := y.end(ctx, r); err != nil {
			return err
		}
	}
	// First the tap, then the service: what only the tap had would be lost to the service.
	err := errors.Join(
		y.broker.Unbind(ctx, broker.Tap, "#"),
		y.broker.Unbind(ctx, broker.Queue, string(checker.Place), string(checker.Confirm), string(checker.Cancel)))
	if err != nil {
		return err
	}
	if err := sleep(ctx, y.scaled(4*time.Second)); err != nil {
		return err
	}
	err = y.orderDB.QueryRow(ctx, "SELECT count(*) FROM outbox_events WHERE failure_code = 'unroutable'").Scan(&y.injected)
	if err != nil {
		return err
	}
	return errors.Join(y.start(ctx), y.broker.BindTap(ctx))
}

func (y *system) deleteQueue(ctx context.Context) error {
	y.allowed.SpentOnce = replicas * inFlight
	return y.damage(ctx, func() error { return y.broker.DeleteQueues(ctx, broker.Queue) })
}

func (y *system) deleteBinding(ctx context.Context) error {
	return y.damage(ctx, func() error { return y.broker.Unbind(ctx, broker.Queue, string(checker.Place)) })
}

func (y *system) deleteExchange(ctx context.Context) error {
	y.allowed.TapGap = true
	y.excuseUnknown()
	return y.damage(ctx, func() error {
		return errors.Join(y.broker.DeleteExchanges(ctx, broker.Exchange), sleep(ctx, time.Second), y.broker.BindTap(ctx))
	})
}

// damage does something to the topology that the services must mend by themselves: they
// look after it every ten seconds.
func (y *system) damage(ctx context.Context, do func() error) error {
	if err := do(); err != nil {
		return err
	}
	y.injected++
	return sleep(ctx, y.scaled(11*time.Second))
}

// republish is the way back for what the broker has lost through an operator's hands:
// the outbox still has it.
func (y *system) republish(ctx context.Context) error {
	events, err := y.awaitPublished(ctx)
	if err != nil {
		return err
	}
	y.allowed.Duplicates += events
	return y.operate(ctx, y.orders[0], "outbox", "republish", "--since", "1h")
}

// awaitPublished returns the number of events once all are published.
func (y *system) awaitPublished(ctx context.Context) (events int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for due := -1; due != 0; {
		err := y.orderDB.QueryRow(ctx, "SELECT count(*), count(*) FILTER (WHERE status <> 'published') FROM outbox_events").Scan(&events, &due)
		if err := errors.Join(err, sleep(ctx, 100*time.Millisecond)); err != nil {
			return 0, fmt.Errorf("%d events are not published: %w", due, err)
		}
	}
	return events, nil
}

// operate runs an operator's command.
func (y *system) operate(ctx context.Context, r *replica, arguments ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	command := exec.CommandContext(ctx, r.program, arguments...) //nolint:gosec // our own
	command.Env = append([]string{"APP_ENV=demo"}, r.settings...)
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %v: %w\n%s", filepath.Base(r.program), arguments, err, output)
	}
	return nil
}

// plant puts messages into the consumer's queue that nobody can read.
func (y *system) plant(ctx context.Context, n int) error {
	if y.allowed.Planted == nil {
		y.allowed.Planted = map[string]checker.Message{}
	}
	var bad []checker.Message
	for range n {
		m := checker.Message{ID: uuid.NewString(), Key: string(checker.Place), Body: []byte("{\"order_id\": \xff")}
		bad, y.allowed.Planted[m.ID] = append(bad, m), m
	}
	return y.broker.Emit(ctx, bad...)
}

// deleteWayBack deletes what failed messages need, and then lets some fail.
func (y *system) deleteWayBack(ctx context.Context) error {
	for range 3 {
		err := errors.Join(
			y.broker.DeleteExchanges(ctx, append([]string{"notification-service.dlx", broker.Requeue}, y.tiers()...)...),
			y.plant(ctx, 3))
		if err != nil {
			return err
		}
		y.injected += 2 + len(y.tiers())
		y.mail.Feel(busyMailboxes(5))
		if err := y.aMoment(ctx, y.scaled(4*time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// forbidDeadLetters takes from the consumers the right to publish what they give up.
func (y *system) forbidDeadLetters(ctx context.Context) (err error) {
	const allButDeadLetters = `^(?!notification-service\.dlx$)`
	if _, err := y.rabbitmq.Ctl(ctx, "set_permissions", notificationService, ".*", allButDeadLetters, ".*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.permit(context.WithoutCancel(ctx))) }()
	for range 3 {
		if err := errors.Join(y.plant(ctx, 3), y.aMoment(ctx, y.scaled(4*time.Second))); err != nil {
			return err
		}
	}
	for _, r := range y.notifications {
		if _, err := r.find("no copy yet, trying again"); err == nil {
			y.injected++
		}
	}
	return nil
}

// expireIntoNowhere lets retries come to their end while the exchange is gone through
// which they return, and nobody is there to declare it.
func (y *system) expireIntoNowhere(ctx context.Context) error {
	y.mail.Feel(busyMailboxes(0))
	err := sleep(ctx, y.scaled(2*time.Second))
	y.mail.Feel(mailserver.Mood{})
	for _, r := range y.notifications {
		err = errors.Join(err, y.end(ctx, r))
	}
	err = errors.Join(err, y.broker.DeleteExchanges(ctx, broker.Requeue))
	for _, queue := range y.tiers() {
		waiting, unknown := y.broker.Ready(ctx, queue)
		y.injected += waiting
		err = errors.Join(err, unknown)
	}
	return errors.Join(err, sleep(ctx, y.scaled(5*time.Second))) // all of them expire
}

// fillQueue lets the queue take no more than a few messages, and ends those who would
// take them out.
func (y *system) fillQueue(ctx context.Context) error {
	y.allowed.Spent = true
	if _, err := y.rabbitmq.Ctl(ctx, "set_policy", fullPolicy, "^"+broker.Queue+"$", `{"max-length":20}`, "--apply-to", "queues"); err != nil {
		return err
	}
	for _, r := range y.notifications {
		if err := y.end(ctx, r); err != nil {
			return err
		}
	}
	return sleep(ctx, y.scaled(4*time.Second))
}

const fullPolicy = "full"

// liftLimit lets the queue take messages again by the other way: not because it was
// emptied, but because it may be longer.
func (y *system) liftLimit(ctx context.Context) error {
	if err := y.fillQueue(ctx); err != nil {
		return err
	}
	_, err := y.rabbitmq.Ctl(ctx, "clear_policy", fullPolicy)
	return err
}

// countRefusals allows for the copies that the tap has of events which the full queue
// refused: the broker gave them to everybody else.
func (y *system) countRefusals(ctx context.Context) error {
	defer func() { _, _ = y.rabbitmq.Ctl(context.WithoutCancel(ctx), "clear_policy", fullPolicy) }()
	soon, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := y.awaitPublished(soon); err != nil {
		y.broken = append(y.broken, complaint{"P4", err.Error()})
	}
	err := y.orderDB.QueryRow(ctx, "SELECT coalesce(sum(retry_count), 0) FROM outbox_events").Scan(&y.injected)
	y.allowed.Duplicates += y.injected
	return err
}
