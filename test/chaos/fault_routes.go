package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/env/load"
)

// unbindAll removes all bindings. The events must stay in the outbox.
func (sys *system) unbindAll(ctx context.Context) error {
	sys.allowed.TapGap = true
	sys.allowed.Refusals = true // a returned event was tried, and that is counted too
	since, err := sys.now(ctx)
	// The tap first: an event that only reaches the tap would be lost for the service.
	err = errors.Join(err,
		sys.stopConsumers(ctx),
		sys.broker.Unbind(ctx, broker.Tap, "#"),
		sys.broker.Unbind(ctx, broker.Queue, string(load.Place), string(load.Confirm), string(load.Cancel)),
		sleep(ctx, sys.scaled(4*time.Second)))
	if err != nil {
		return err
	}
	sys.injected, _, err = sys.storedSince(ctx, since)
	return errors.Join(err, sys.start(ctx), sys.broker.BindTap(ctx))
}

// deleteQueue deletes the consumer's queue. The services check the topology every ten seconds and
// must repair it.
func (sys *system) deleteQueue(ctx context.Context) error {
	sys.allowed.Refusals = true
	sys.injected++
	return errors.Join(sys.broker.DeleteQueues(ctx, broker.Queue), sleep(ctx, sys.scaled(11*time.Second)))
}

// republish publishes all events again: the broker has lost those of the deleted queue.
func (sys *system) republish(ctx context.Context) error {
	if err := sys.requireAllPublished(ctx); err != nil {
		return err
	}
	// The broker refuses an event while it is putting it into a queue that is deleted.
	if _, err := sys.allowRefusedCopies(ctx); err != nil {
		return err
	}
	if err := sys.allowRepeatsSince(ctx, time.Time{}); err != nil {
		return err
	}
	return sys.runCommand(ctx, sys.orderServices[0], "outbox", "republish", "--since", "1h")
}

// runCommand runs an operator's command of a service.
func (sys *system) runCommand(ctx context.Context, r *replica, arguments ...string) error {
	_, err := sys.readCommand(ctx, r, arguments...)
	return err
}

// readCommand returns what the command writes to stdout.
func (sys *system) readCommand(ctx context.Context, r *replica, arguments ...string) (stdout []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	command := exec.CommandContext(ctx, r.program, arguments...) //nolint:gosec // our own
	command.Env = append([]string{"APP_ENV=demo"}, r.settings...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	if stdout, err = command.Output(); err != nil {
		err = fmt.Errorf("%s %v: %w\n%s%s", filepath.Base(r.program), arguments, err, stdout, stderr.Bytes())
	}
	return stdout, err
}

const fullPolicy = "full"

// limitQueue makes a queue refuse what is more than so many messages. Without a limit it takes all.
func (sys *system) limitQueue(ctx context.Context, queue, limit string) error {
	_, err := sys.rabbitmq.Ctl(ctx, "set_policy", fullPolicy, "^"+queue+"$", `{"max-length":`+limit+`}`, "--apply-to", "queues")
	return err
}

func (sys *system) unlimitQueue(ctx context.Context) error {
	_, err := sys.rabbitmq.Ctl(context.WithoutCancel(ctx), "clear_policy", fullPolicy)
	return err
}

// fillQueue limits the length of the queue and stops its consumers. Every event has this queue, so
// soon the broker refuses all of them. None may fail: they were first refused a moment ago.
func (sys *system) fillQueue(ctx context.Context) error {
	sys.allowed.Refusals = true
	return errors.Join(sys.limitQueue(ctx, broker.Queue, "20"), sys.stopConsumers(ctx), sleep(ctx, sys.scaled(4*time.Second)))
}

// requireSoonPublished requires that all events are published while the queue may hold twenty.
func (sys *system) requireSoonPublished(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, sys.unlimitQueue(ctx)) }()
	if err := sys.requireAllPublished(ctx); err != nil {
		return err
	}
	sys.injected, err = sys.allowRefusedCopies(ctx)
	return err
}

// allowRefusedCopies permits duplicates of events that one queue refused: the broker had routed
// them to the tap. It returns how many were refused.
func (sys *system) allowRefusedCopies(ctx context.Context) (n int, err error) {
	for _, r := range sys.orderServices {
		refused, err := r.process.Metric(ctx, "outbox_refused_total")
		if err != nil {
			return 0, err
		}
		n += int(refused)
	}
	sys.allowed.Duplicates += n
	return n, nil
}

// shuffleMessages stops the consumers, drains their queue, and sends each message back three times,
// in random order.
func (sys *system) shuffleMessages(ctx context.Context) error {
	for range 2 {
		if err := errors.Join(sys.stopConsumers(ctx), sleep(ctx, sys.scaled(2*time.Second))); err != nil {
			return err
		}
		// The relay still publishes: new messages may come before or after these.
		messages, err := sys.broker.Drain(ctx, broker.Queue)
		if err != nil {
			return err
		}
		messages = slices.Concat(messages, messages, messages)
		sys.random.Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
		sys.injected += len(messages)
		if err := errors.Join(sys.broker.Redeliver(ctx, messages...), sys.start(ctx)); err != nil {
			return err
		}
	}
	return nil
}
