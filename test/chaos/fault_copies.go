package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/env/load"
)

// deleteRetryPath deletes the exchanges for retries and dead letters, and makes some messages fail.
func (sys *system) deleteRetryPath(ctx context.Context) error {
	exchanges := append([]string{deadLetterExchange, broker.Requeue}, retryQueues()...)
	return sys.refusingOrders(ctx, 10, func() error {
		for range 3 {
			err := errors.Join(
				sys.broker.DeleteExchanges(ctx, exchanges...), sys.publishMalformed(ctx, 3), sys.sleepRandom(ctx, sys.scaled(4*time.Second)))
			if err != nil {
				return err
			}
			sys.injected += len(exchanges)
		}
		return nil
	})
}

// expireWithoutRequeue lets messages expire in the retry queues while the requeue exchange does not
// exist and no consumer runs that could declare it.
func (sys *system) expireWithoutRequeue(ctx context.Context) error {
	err := sys.refusingOrders(ctx, 1, func() error {
		err := errors.Join(
			sleep(ctx, sys.scaled(2*time.Second)), sys.stopConsumers(ctx), sys.broker.DeleteExchanges(ctx, broker.Requeue))
		waiting, unknown := sys.broker.Ready(ctx, retryQueues()...)
		if waiting == 0 {
			unknown = errors.Join(unknown, errors.New("no message waits for its retry"))
		}
		return errors.Join(err, unknown)
	})
	return errors.Join(err, sleep(ctx, sys.scaled(5*time.Second))) // all of them expire
}

// blockDeadLetters starts a consumer on a queue with malformed messages: one at the head and eight
// at the end. The broker blocks publishers, so the consumer cannot dead-letter them. The valid
// messages must still have their effect.
func (sys *system) blockDeadLetters(ctx context.Context) (err error) {
	valid, err := sys.queueBehindMalformed(ctx)
	if err != nil {
		return err
	}
	if err := sys.publishMalformed(ctx, 8); err != nil {
		return err
	}
	unblock, err := sys.blockPublishers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unblock()) }()
	if err := sys.notificationServices[0].start(ctx); err != nil {
		return err
	}
	return sys.requireEffects(ctx, valid, "P9", "behind malformed messages that cannot be dead-lettered")
}

// queueBehindMalformed stops the consumers and the flow of events. It puts a malformed message at
// the head of the queue and the valid messages behind it, and returns the ids of the valid ones.
func (sys *system) queueBehindMalformed(ctx context.Context) (valid []string, err error) {
	sys.allowInFlight()
	sys.allowed.Refusals = true // there may be no answer in time
	if err := errors.Join(sys.stopConsumers(ctx), sleep(ctx, sys.scaled(time.Second))); err != nil {
		return nil, err
	}
	for _, p := range sys.ordersToBroker {
		p.Stall()
		defer p.Resume()
	}
	if err := sleep(ctx, 300*time.Millisecond); err != nil { // messages in flight arrive
		return nil, err
	}
	messages, err := sys.broker.Drain(ctx, broker.Queue)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		valid = append(valid, m.ID)
	}
	if len(valid) < 20 {
		return nil, fmt.Errorf("%d valid messages are too few", len(valid))
	}
	return valid, errors.Join(sys.publishMalformed(ctx, 1), sys.broker.Redeliver(ctx, messages...))
}

// publishMalformed publishes malformed messages.
func (sys *system) publishMalformed(ctx context.Context, n int) error {
	if sys.allowed.Malformed == nil {
		sys.allowed.Malformed = map[string]broker.Message{}
	}
	var bad []broker.Message
	for range n {
		m := broker.Message{ID: uuid.NewString(), Key: string(load.Place), Body: []byte("{\"order_id\": \xff")}
		bad, sys.allowed.Malformed[m.ID] = append(bad, m), m
	}
	return sys.broker.Publish(ctx, bad...)
}

// refuseOrdersSQL makes the messages about some orders fail by themselves: the database still takes
// a row of the inbox. The sequence counts the failures, because a rollback does not undo nextval.
const refuseOrdersSQL = `
CREATE SEQUENCE orders_refused;
CREATE FUNCTION refuse_order() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  IF hashtext(NEW.order_id::text) %% %d = 0 AND nextval('orders_refused') > 0 THEN
    RAISE EXCEPTION 'the suite refuses this order';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse_order BEFORE INSERT OR UPDATE ON order_progress FOR EACH ROW EXECUTE FUNCTION refuse_order()`

// refusingOrders makes messages about one of several orders fail while do runs, and counts the
// failures as faults.
func (sys *system) refusingOrders(ctx context.Context, oneOf int, do func() error) error {
	if err := sys.postgres.Execute(ctx, notificationDatabase, fmt.Sprintf(refuseOrdersSQL, oneOf)); err != nil {
		return err
	}
	err := do()
	ctx = context.WithoutCancel(ctx)
	n := 0
	countErr := sys.notificationDB.QueryRow(ctx, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM orders_refused").Scan(&n)
	sys.injected += n
	return errors.Join(err, countErr, sys.postgres.Execute(ctx, notificationDatabase, "DROP FUNCTION refuse_order CASCADE", "DROP SEQUENCE orders_refused"))
}
