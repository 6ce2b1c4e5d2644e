package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/chaos/broker"
)

// A scenario can have topics beside the orders', each with a queue of its own. The suite itself
// stores their events. No service consumes them, so the checker leaves them out.
const mostTopics = 8

// topicNames returns the topics of a scenario.
func topicNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("backlog.", i+1))
	}
	return names
}

// queueOf returns the name of a topic's queue.
func queueOf(topic string) string { return "chaos-" + topic }

// manySettings are the relay's settings for a scenario with a large backlog: what production has.
var manySettings = []string{"RELAY_WINDOW=2000", "RELAY_LEASE=20s", "RELAY_CONFIRM_TIMEOUT=10s", "RELAY_RETRY_BASE=1s", "RELAY_RETRY_CAP=5m"}

// leaveOutBacklogSQL ends the recording of what the relays claim: it costs more than the claims do.
// Of the queue, it records only the orders' events.
const leaveOutBacklogSQL = `
DROP TRIGGER claim ON outbox_claims;
DROP TRIGGER unpublished ON outbox_queue;
CREATE TRIGGER unpublished AFTER INSERT OR UPDATE ON outbox_queue FOR EACH ROW
  WHEN (NEW.topic LIKE 'order.%') EXECUTE FUNCTION note_unpublished()`

// prepareBacklog prepares the servers for topics beside the orders'. The tap gets no events of
// theirs.
func (sys *system) prepareBacklog(ctx context.Context) error {
	_, err := sys.orderDB.Exec(ctx, leaveOutBacklogSQL)
	return errors.Join(err, sys.broker.Unbind(ctx, broker.Tap, "#"), sys.broker.BindQueue(ctx, broker.Tap, "order.*"))
}

// bindTopics declares a queue for each topic.
func (sys *system) bindTopics(ctx context.Context, topics ...string) error {
	for _, topic := range topics {
		if err := sys.broker.BindQueue(ctx, queueOf(topic), topic); err != nil {
			return err
		}
	}
	return nil
}

// many returns how many events a backlog has: fewer with SHORT=1.
func (o options) many(n int) int {
	if o.Short {
		return n / 10
	}
	return n
}

// lasting returns how long a fault lasts: shorter with SHORT=1.
func (o options) lasting(d time.Duration) time.Duration {
	if o.Short {
		d /= 2
	}
	return o.scaled(d)
}

const insertBacklogSQL = `
WITH log AS (
  INSERT INTO outbox_events (id, slot, version, aggregate, aggregate_id, topic, payload, content_type)
  SELECT id, current, 1, 'backlog', id::text, $1, convert_to('"' || repeat('x', $2 - 2) || '"', 'UTF8'), 'application/json'
  FROM outbox_ring, (SELECT gen_random_uuid() AS id FROM generate_series(1, $3)) ids
  RETURNING id, seq, slot, version, aggregate, aggregate_id, topic, octet_length(payload) AS bytes
)
INSERT INTO outbox_queue (id, seq, slot, version, aggregate, aggregate_id, topic, bytes)
SELECT id, seq, slot, version, aggregate, aggregate_id, topic, bytes FROM log`

// smallPayload is the size of most of a backlog's payloads, in bytes.
const smallPayload = 200

// insertBacklog stores events of a topic, each of an aggregate of its own.
func insertBacklog(ctx context.Context, tx pgx.Tx, topic string, bytes, n int) error {
	_, err := tx.Exec(ctx, insertBacklogSQL, topic, bytes, n)
	return err
}

// lastSeq returns the newest event's number. What was committed before has no larger one.
func (sys *system) lastSeq(ctx context.Context) (seq int64, err error) {
	err = sys.orderDB.QueryRow(ctx, "SELECT coalesce(max(seq), 0) FROM outbox_events").Scan(&seq)
	return seq, err
}

// waiting counts the events up to a number that are not done, and how many of them have failed.
func (sys *system) waiting(ctx context.Context, upTo int64) (n, failed int, err error) {
	err = sys.orderDB.QueryRow(ctx, "SELECT count(*), count(failed_at) FROM outbox_queue WHERE seq <= $1", upTo).Scan(&n, &failed)
	return n, failed, err
}

// requireOut requires that all events stored so far are published within a time. It waits a little
// longer, to return how long that takes.
func (sys *system) requireOut(ctx context.Context, within time.Duration) (took time.Duration, err error) {
	last, err := sys.lastSeq(ctx)
	if err != nil {
		return 0, err
	}
	late := false
	for began := time.Now(); ; {
		n, failed, err := sys.waiting(ctx, last)
		took = time.Since(began)
		switch {
		case err != nil || n == 0 || took > within+recoveryTime:
			return took, err
		case took > within && !late:
			late = true
			sys.reportViolation("P4", "%d events wait %s after the mend, %d of them have failed", n, within, failed)
		}
		if err := sleep(ctx, time.Second); err != nil {
			return took, err
		}
	}
}

// requireArrived requires that the topics' queues have all their events, and not many copies: at
// most most are sent again.
func (sys *system) requireArrived(ctx context.Context, topics []string, events, most int) error {
	var queues []string
	for _, topic := range topics {
		queues = append(queues, queueOf(topic))
	}
	got, err := sys.broker.Ready(ctx, queues...)
	switch {
	case err != nil:
		return err
	case got < events:
		sys.reportViolation("P3", "the queues of %v have %d of %d events", topics, got, events)
	case got > events+most:
		sys.reportViolation("P5", "%d additional copies of %v were published, and the fault permits %d", got-events, topics, most)
	}
	return nil
}
