package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/test/env/broker"
)

// A scenario can have a topic beside the orders', with a queue of its own. The suite itself stores
// its events. No service consumes them, so the checker leaves them out.
const (
	topic   = "backlog"
	queue   = "chaos-backlog"
	backlog = 50_000 // events
)

// window is the relay's window in a scenario with a large backlog.
const window = 2000

// manySettings are the relay's settings for a scenario with a large backlog: what production has.
var manySettings = []string{
	fmt.Sprint("RELAY_WINDOW=", window), "RELAY_LEASE=20s", "RELAY_CONFIRM_TIMEOUT=10s", "RELAY_RETRY_BASE=1s", "RELAY_RETRY_CAP=5m",
}

// leaveOutBacklogSQL ends the recording of what the relays claim: it costs more than the claims do.
// Of the queue, it records only the orders' events.
const leaveOutBacklogSQL = `
DROP TRIGGER claim ON outbox_claims;
DROP TRIGGER unpublished ON outbox_queue;
CREATE TRIGGER unpublished AFTER INSERT OR UPDATE ON outbox_queue FOR EACH ROW
  WHEN (NEW.topic LIKE 'order.%') EXECUTE FUNCTION note_unpublished()`

// prepareBacklog declares the topic's queue. The tap gets no events of the topic.
func (sys *system) prepareBacklog(ctx context.Context) error {
	_, err := sys.orderDB.Exec(ctx, leaveOutBacklogSQL)
	return errors.Join(err, sys.broker.Unbind(ctx, broker.Tap, "#"),
		sys.broker.BindQueue(ctx, broker.Tap, "order.*"), sys.broker.BindQueue(ctx, queue, topic))
}

// insertBacklog stores events of the topic, each of an aggregate of its own, and begins a fault
// before they are visible.
func (sys *system) insertBacklog(ctx context.Context, n int, begin func() error) error {
	return pgx.BeginFunc(ctx, sys.orderDB, func(tx pgx.Tx) error {
		payload := []byte(`"` + strings.Repeat("x", 200) + `"`)
		events := make([]outbox.Event, n)
		for i := range events {
			events[i] = outbox.Event{Topic: topic, Aggregate: topic, AggregateID: uuid.NewString(), Version: 1, Payload: payload}
		}
		for some := range slices.Chunk(events, 1000) {
			if err := outbox.Append(ctx, tx, some...); err != nil {
				return err
			}
		}
		return begin()
	})
}

// fillOneQueue limits the length of the topic's queue, which then refuses messages.
func (sys *system) fillOneQueue(ctx context.Context) error {
	return sys.breakTopic(ctx, func() error { return sys.limitQueue(ctx, queue, "1") }, func() error { return sys.unlimitQueue(ctx) })
}

// silenceOneQueue suspends the process of the topic's queue. The broker still answers for all
// others. While a queue does not take what was sent to it, the broker reads nothing more from that
// connection, also no events of the orders. So some of these have no answer, and are sent again.
func (sys *system) silenceOneQueue(ctx context.Context) error {
	sys.allowed.Refusals = true
	since, err := sys.now(ctx)
	if err != nil {
		return err
	}
	sys.allowInFlight()
	err = sys.breakTopic(ctx, func() error { return sys.rabbitmq.OnQueue(ctx, queue, "sys:suspend") }, func() error {
		return errors.Join(sys.allowRepeatsSince(ctx, since), sys.rabbitmq.OnQueue(context.WithoutCancel(ctx), queue, "sys:resume"))
	})
	return err
}

// breakTopic begins a fault of the topic, whose events are in front of the orders'. The topic must
// be paused, and then events of orders must be published, before it mends the fault. After the mend
// all are published.
func (sys *system) breakTopic(ctx context.Context, begin, mend func() error) error {
	err := sys.insertBacklog(ctx, backlog, begin)
	if err == nil {
		err = errors.Join(sys.requirePaused(ctx), sys.requireFlow(ctx), sys.countWaiting(ctx))
	}
	if err := errors.Join(err, mend(), sys.requireAllPublished(ctx)); err != nil {
		return err
	}
	// All relays can have eight windows of each worker without an answer.
	return sys.requireArrived(ctx, backlog, replicas*relayWorkers*8*window)
}

// requirePaused requires that the relays pause the topic.
func (sys *system) requirePaused(ctx context.Context) error {
	return sys.require(ctx, "P4", "after the start of the topic's fault", func() (string, error) {
		paused := false
		err := sys.orderDB.QueryRow(ctx, "SELECT EXISTS (SELECT FROM outbox_topics WHERE topic = $1)", topic).Scan(&paused)
		if paused {
			return "", err
		}
		return "the topic is not paused", err
	})
}

// countWaiting requires that the fault is not over and that no event has failed.
func (sys *system) countWaiting(ctx context.Context) error {
	var waiting, failed int
	err := sys.orderDB.QueryRow(ctx, "SELECT count(*), count(failed_at) FROM outbox_queue WHERE topic = $1", topic).Scan(&waiting, &failed)
	if failed > 0 {
		sys.reportViolation("P4", "%d events have failed during the fault", failed)
	}
	sys.injected += waiting
	return err
}

// requireAllPublished requires that all events stored so far are published.
func (sys *system) requireAllPublished(ctx context.Context) error {
	last := 0
	if err := sys.orderDB.QueryRow(ctx, "SELECT coalesce(max(seq), 0) FROM outbox_events").Scan(&last); err != nil {
		return err
	}
	return sys.require(ctx, "P4", "after the mend", func() (string, error) {
		var waiting, failed int
		err := sys.orderDB.QueryRow(ctx, "SELECT count(*), count(failed_at) FROM outbox_queue WHERE seq <= $1", last).Scan(&waiting, &failed)
		if waiting > 0 {
			return fmt.Sprintf("%d events wait, and %d of them have failed", waiting, failed), err
		}
		return "", err
	})
}

// requireArrived requires that the topic's queue has all events, and not more copies than the fault
// permits.
func (sys *system) requireArrived(ctx context.Context, events, most int) error {
	got, err := sys.broker.Ready(ctx, queue)
	if err == nil && got < events {
		sys.reportViolation("P3", "the queue of the topic has %d of %d events", got, events)
	}
	if got > events+most {
		sys.reportViolation("P5", "%d additional copies were published, and the fault permits %d", got-events, most)
	}
	return err
}

// giveUpSoon makes events fail soon if what is no refusal is counted as one.
var giveUpSoon = []string{"RELAY_GIVE_UP=1s"}

// flap cuts the relays' connections every two seconds, each time while events wait for their
// answers: the broker's answers do not arrive any more.
func (sys *system) flap(ctx context.Context) error {
	const cuts, every = 20, 2 * time.Second
	for range cuts {
		held := time.Duration(sys.random.Int64N(int64(every / 4)))
		for _, p := range sys.publisherProxies() {
			p.HoldReplies()
		}
		err := errors.Join(sys.insertBacklog(ctx, backlog/cuts, func() error { return nil }), sleep(ctx, held))
		sys.injected += countOpen(sys.publisherProxies())
		sys.allowInFlight()
		for _, p := range sys.publisherProxies() {
			p.Cut()
			p.Resume()
		}
		if err := errors.Join(err, sleep(ctx, every-held)); err != nil {
			return err
		}
	}
	err := errors.Join(sys.requireAllPublished(ctx), sys.requireConnected(ctx), sys.requireNoneCounted(ctx))
	return errors.Join(err, sys.requireArrived(ctx, backlog, cuts*replicas*relayWorkers*window))
}

// requireConnected requires that each relay is connected again: there may be one relay only.
func (sys *system) requireConnected(ctx context.Context) error {
	return sys.require(ctx, "P4", "after the last cut", func() (string, error) {
		for i, proxies := range sys.ordersToBroker {
			if countOpen(proxies) == 0 {
				return sys.orderServices[i].name + " is not connected", nil
			}
		}
		return "", nil
	})
}

// requireNoneCounted requires that no event was counted as refused: nothing but connections was
// lost.
func (sys *system) requireNoneCounted(ctx context.Context) error {
	counted := 0
	err := sys.orderDB.QueryRow(ctx, `SELECT (SELECT count(*) FROM outbox_done WHERE retry_count > 0) +
		(SELECT count(*) FROM outbox_queue WHERE retry_count > 0)`).Scan(&counted)
	if counted > 0 {
		sys.reportViolation("P4", "%d events were counted as refused", counted)
	}
	return err
}
