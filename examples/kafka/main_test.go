package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

// TestEveryEventIsPublishedInOrder also if something is wrong with Kafka for a while. No event
// fails then, but for one that is too large.
func TestEveryEventIsPublishedInOrder(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fault func(t *testing.T, c *kfake.Cluster) (mend func())
		want  error // what the relay gets meanwhile
	}{
		"nothing wrong":    {nothing, nil},
		"one is too large": {nothing, publish.ErrTooLarge},
		"no topic":         {deleteTopic, publish.ErrReturned},
		"broker away":      {stopBroker, publish.ErrNotSent},
		"replicas missing": {answer(kerr.NotEnoughReplicas), kerr.NotEnoughReplicas},
		"no leader":        {answer(kerr.LeaderNotAvailable), publish.ErrTimeout},
		"stored, or not":   {answer(kerr.RequestTimedOut), publish.ErrTimeout},
		"no answer":        {silence, publish.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, pool := startBroker(t, 0), database(t)
			brokers := kgo.SeedBrokers(c.ListenAddrs()...)
			p, err := newPublisher(brokers)
			check.Must(t, err)
			var seen atomic.Pointer[error]
			relay, err := outbox.NewRelay(pool, publish.Func(calls, func(ctx context.Context, m publish.Message) error {
				err := p.publish(ctx, m)
				if err != nil {
					seen.CompareAndSwap(nil, &err)
				}
				return err
			}), outbox.RelayConfig{})
			check.Must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- relay.Run(ctx) }()
			t.Cleanup(func() { cancel(); check.Must(t, <-ended); p.close() })
			count := func(where string) (n int) {
				check.Must(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM outbox_status WHERE "+where).Scan(&n))
				return n
			}
			for version := range calls { // each client has published before
				save(t, pool, event("0", version+1, 10))
			}
			check.Await(t, "the first events", func() bool { return count("status = 'published'") == calls })

			mend := row.fault(t, c)
			var events, large []outbox.Event
			for order := range calls {
				events = append(events, event(fmt.Sprint(17+order), 1, 100), event(fmt.Sprint(17+order), 2, 100))
			}
			if errors.Is(row.want, publish.ErrTooLarge) {
				large = append(large, event("large", 1, 3000))
			}
			save(t, pool, slices.Concat(events[:calls], large, events[calls:])...)
			check.Await(t, "an error", func() bool { return row.want == nil || seen.Load() != nil })
			mend()
			check.Await(t, "all published", func() bool { return count("status = 'published'") == calls+len(events) })
			if err := seen.Load(); err != nil && (!errors.Is(*err, row.want) ||
				errors.Is(*err, publish.ErrTimeout) != errors.Is(row.want, publish.ErrTimeout)) {
				t.Errorf("the relay got %v, want %v", *err, row.want)
			}
			failed, tooLarge := count("status = 'failed'"), count("status = 'failed' AND failure_code = 'too_large'")
			if failed != len(large) || tooLarge != len(large) {
				t.Errorf("%d events have failed, %d as too large, want %d", failed, tooLarge, len(large))
			}
			receive(t, brokers, events)
		})
	}
}

func TestTheProgramPrintsWhatAConsumerGets(t *testing.T) {
	t.Setenv("DATABASE_URL", database(t).Config().ConnString())
	t.Setenv("KAFKA_BROKERS", strings.Join(startBroker(t, 0).ListenAddrs(), ","))
	check.Must(t, run(t.Context()))
}

func nothing(*testing.T, *kfake.Cluster) func() { return func() {} }

func deleteTopic(t *testing.T, c *kfake.Cluster) (mend func()) {
	check.Must(t, c.DeleteTopic(kafkaTopic))
	return func() { createTopic(t, c) }
}

func stopBroker(t *testing.T, c *kfake.Cluster) (mend func()) {
	_, text, _ := net.SplitHostPort(c.ListenAddrs()[0])
	port, err := strconv.Atoi(text)
	check.Must(t, err)
	c.Close()
	return func() { startBroker(t, port) }
}

// answer is what each publish gets.
func answer(err *kerr.Error) func(*testing.T, *kfake.Cluster) func() {
	return func(_ *testing.T, c *kfake.Cluster) (mend func()) {
		return c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: err, Count: -1}).Remove
	}
}

// silence holds the answers to what is published.
func silence(_ *testing.T, c *kfake.Cluster) (mend func()) {
	over := make(chan struct{})
	c.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		c.SleepControl(func() { <-over })
		return nil, nil, false
	})
	return func() { close(over) }
}

func startBroker(t *testing.T, port int) *kfake.Cluster {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port))
	check.Must(t, err)
	t.Cleanup(c.Close)
	createTopic(t, c)
	return c
}

func createTopic(t *testing.T, c *kfake.Cluster) {
	check.Must(t, c.CreateTopic(kafkaTopic, 3, map[string]string{"max.message.bytes": "2000"}))
}

// event has a body of random bytes.
func event(order string, version, size int) outbox.Event {
	e := outbox.Event{
		ID: uuid.New(), Topic: "order.changed", Aggregate: "order", AggregateID: order, Version: version,
		Payload: make([]byte, size), ContentType: "application/octet-stream", Headers: map[string]string{"tenant": "ä"},
	}
	_, _ = rand.Read(e.Payload)
	return e
}

func save(t *testing.T, pool *pgxpool.Pool, events ...outbox.Event) {
	check.Must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return outbox.Append(t.Context(), tx, events...) }))
}

// receive waits for the records of all events, and compares them. Some may come twice.
func receive(t *testing.T, brokers kgo.Opt, events []outbox.Event) {
	consumer, err := kgo.NewClient(brokers, kgo.ConsumeTopics(kafkaTopic))
	check.Must(t, err)
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), check.Limit)
	defer cancel()
	wait, last := map[string]outbox.Event{}, map[string]int{}
	for _, e := range events {
		wait[e.ID.String()] = e
	}
	for len(wait) > 0 {
		if ctx.Err() != nil {
			t.Fatalf("%d records have not arrived", len(wait))
		}
		consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			headers := map[string]string{}
			for _, h := range r.Headers {
				headers[h.Key] = string(h.Value)
			}
			e, first := wait[headers["message-id"]]
			if !first {
				return
			}
			delete(wait, e.ID.String())
			order := string(r.Key)
			if last[order]++; order != e.AggregateID || last[order] != e.Version {
				t.Errorf("record %d of order %s, want version %d of %s", last[order], order, e.Version, e.AggregateID)
			}
			got := []string{headers["topic"], headers["tenant"], headers["content-type"], string(r.Value)}
			if want := []string{e.Topic, "ä", e.ContentType, string(e.Payload)}; !slices.Equal(got, want) {
				t.Errorf("a record with %q, want %q", got, want)
			}
		})
	}
}

// database has the outbox's tables, and is dropped when the test ends.
func database(t *testing.T) *pgxpool.Pool {
	pool, err := pgxpool.New(t.Context(), servers.Database(t))
	check.Must(t, err)
	t.Cleanup(pool.Close)
	check.Must(t, outbox.Migrate(t.Context(), pool))
	return pool
}
