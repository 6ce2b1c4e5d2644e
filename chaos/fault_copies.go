package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"example.com/transactional-outbox/chaos/broker"
	"example.com/transactional-outbox/chaos/mailserver"
)

// blockCopies gives a fresh process a queue with a bad message at its head and eight more
// behind, while no publisher is let through: their copies cannot be made. The good ones
// need none.
func (y *system) blockCopies(ctx context.Context) (err error) {
	good, err := y.queueBehind(ctx, func() error { return y.plant(ctx, 1) })
	if err != nil {
		return err
	}
	if err := y.plant(ctx, 8); err != nil {
		return err
	}
	if _, err := y.rabbitmq.Ctl(ctx, "set_vm_memory_high_watermark", "absolute", "1MB"); err != nil {
		return err
	}
	defer func() {
		_, lifted := y.rabbitmq.Ctl(context.WithoutCancel(ctx), "set_vm_memory_high_watermark", "0.4")
		err = errors.Join(err, lifted)
	}()
	blocks, err := y.broker.Blocks(ctx)
	if err != nil {
		return err
	}
	if blocks {
		y.injected++
	}
	if err := y.notifications[0].start(ctx); err != nil {
		return err
	}
	return y.awaitEffects(ctx, good, mendTime, "P9", "behind bad ones of which no copy can be made")
}

// queueBehind ends the consumers, and returns the good messages that it has put into their
// queue behind what place puts there. Nothing else comes meanwhile.
func (y *system) queueBehind(ctx context.Context, place func() error) (good []string, err error) {
	y.excuseUnknown()
	for _, r := range y.notifications {
		if err := y.end(ctx, r); err != nil {
			return nil, err
		}
	}
	if err := sleep(ctx, y.scaled(time.Second)); err != nil {
		return nil, err
	}
	for _, p := range y.ordersToBroker {
		p.Stall()
		defer p.Resume()
	}
	if err := sleep(ctx, 300*time.Millisecond); err != nil { // what is on its way arrives
		return nil, err
	}
	messages, err := y.broker.Drain(ctx, broker.Queue)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		good = append(good, m.ID)
	}
	if len(good) < 20 {
		return nil, fmt.Errorf("%d good messages are too few", len(good))
	}
	return good, errors.Join(place(), y.broker.GiveBack(ctx, messages...))
}

// longDelays keep a retry queue full for a while: what is in it fills it.
var longDelays = []string{"RETRY_DELAYS=7s,8s,9s"}

// fillRetryQueues lets the retry queues take no more than one message, and a dozen messages
// fail for now: more than there are workers. The others go on.
func (y *system) fillRetryQueues(ctx context.Context) error {
	const failures = replicas*mailWorkers + 4
	if _, err := y.rabbitmq.Ctl(ctx, "set_policy", fullPolicy, `^notification-service\.retry\.`, `{"max-length":0}`, "--apply-to", "queues"); err != nil {
		return err
	}
	defer func() { _, _ = y.rabbitmq.Ctl(context.WithoutCancel(ctx), "clear_policy", fullPolicy) }()
	y.mail.Feel(mailserver.Mood{Code: 452, Enhanced: [3]int{4, 2, 2}, Only: isFull, Times: failures})
	for soon := time.Now().Add(mendTime); len(y.mail.Refused()) < failures && time.Now().Before(soon); {
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	if err := sleep(ctx, y.scaled(time.Second)); err != nil {
		return err
	}
	good, err := y.published(ctx, y.mail.Refused()...)
	if err != nil {
		return err
	}
	if err := y.awaitEffects(ctx, good, 5*time.Second, "P9", "beside others of which no copy can be made"); err != nil {
		return err
	}
	for _, queue := range y.tiers() {
		waiting, err := y.broker.Ready(ctx, queue)
		if err != nil {
			return err
		}
		y.injected -= waiting // these have their copies
	}
	y.injected = max(0, y.injected+len(y.mail.Refused()))
	return nil
}

// isFull reports whether the mailbox of a recipient is: some are, between others that are
// not.
func isFull(to string) bool {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(to, "c"), "@load.example"))
	return err == nil && n%5 == 0
}
