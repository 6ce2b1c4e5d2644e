package main

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/test/chaos/broker"
	"example.com/transactional-outbox/test/chaos/checker"
)

// unbindAll removes all bindings. The events must stay in the outbox.
func (sys *system) unbindAll(ctx context.Context) error {
	sys.allowed.TapGap = true
	sys.allowed.Refusals = true // a returned event was tried, and that is counted too
	for _, r := range sys.notificationServices {
		if err := sys.stopReplica(ctx, r); err != nil {
			return err
		}
	}
	// The tap first: an event that only reaches the tap would be lost for the service.
	err := errors.Join(
		sys.broker.Unbind(ctx, broker.Tap, "#"),
		sys.broker.Unbind(ctx, broker.Queue, string(checker.Place), string(checker.Confirm), string(checker.Cancel)))
	if err != nil {
		return err
	}
	if err := sleep(ctx, sys.scaled(4*time.Second)); err != nil {
		return err
	}
	err = sys.orderDB.QueryRow(ctx, "SELECT count(*) FROM outbox_topics WHERE operator IS NULL").Scan(&sys.injected)
	if err != nil {
		return err
	}
	return errors.Join(sys.start(ctx), sys.broker.BindTap(ctx))
}

func (sys *system) deleteQueue(ctx context.Context) error {
	sys.allowed.Refusals = true
	return sys.damageTopology(ctx, func() error { return sys.broker.DeleteQueues(ctx, broker.Queue) })
}

func (sys *system) deleteBinding(ctx context.Context) error {
	return sys.damageTopology(ctx, func() error { return sys.broker.Unbind(ctx, broker.Queue, string(checker.Place)) })
}

func (sys *system) deleteExchange(ctx context.Context) error {
	sys.allowed.TapGap = true
	sys.allowed.Refusals = true // one relay makes the exchange again before the consumer binds its queue
	sys.allowInFlight()
	return sys.damageTopology(ctx, func() error {
		return errors.Join(sys.broker.DeleteExchanges(ctx, broker.Exchange), sleep(ctx, time.Second), sys.broker.BindTap(ctx))
	})
}

// damageTopology damages the topology. The services check it every ten seconds and must repair it.
func (sys *system) damageTopology(ctx context.Context, do func() error) error {
	if err := do(); err != nil {
		return err
	}
	sys.injected++
	return sleep(ctx, sys.scaled(11*time.Second))
}

// deleteRetryPath deletes the exchanges for retries and dead letters, and makes some messages fail.
func (sys *system) deleteRetryPath(ctx context.Context) error {
	return sys.refusingOrders(ctx, 10, func() error {
		for range 3 {
			err := errors.Join(
				sys.broker.DeleteExchanges(ctx, append([]string{"notification-service.dlx", broker.Requeue}, sys.retryQueues()...)...),
				sys.publishMalformed(ctx, 3), sys.sleepRandom(ctx, sys.scaled(4*time.Second)))
			if err != nil {
				return err
			}
			sys.injected += 2 + len(sys.retryQueues())
		}
		return nil
	})
}

// expireWithoutRequeue lets messages expire in the retry queues while the requeue exchange does not
// exist and no consumer runs that could declare it.
func (sys *system) expireWithoutRequeue(ctx context.Context) error {
	mend, err := sys.refuseOrders(ctx, 1, noLimit)
	if err != nil {
		return err
	}
	err = sleep(ctx, sys.scaled(2*time.Second))
	for _, r := range sys.notificationServices {
		err = errors.Join(err, sys.stopReplica(ctx, r))
	}
	err = errors.Join(err, sys.broker.DeleteExchanges(ctx, broker.Requeue))
	waiting, unknown := sys.broker.Ready(ctx, sys.retryQueues()...)
	sys.injected += waiting
	_, mendErr := mend()
	return errors.Join(err, unknown, mendErr, sleep(ctx, sys.scaled(5*time.Second))) // all of them expire
}
