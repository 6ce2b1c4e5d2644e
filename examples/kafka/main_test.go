package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

var errRefused = errors.New("refused")

// TestEachAnswerHasItsError is about the function that a relay calls. What Kafka could not take for a
// while arrives later, unchanged.
func TestEachAnswerHasItsError(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fault func(t *testing.T, c *kfake.Cluster) (mend func())
		want  error
	}{
		"one is too large": {nothing, publish.ErrTooLarge},
		"no topic":         {deleteTopic, publish.ErrReturned},
		"broker away":      {stopBroker, publish.ErrNotSent},
		"replicas missing": {answer(kerr.NotEnoughReplicas), errRefused},
		"no leader":        {answer(kerr.LeaderNotAvailable), publish.ErrTimeout},
		"stored, or not":   {answer(kerr.RequestTimedOut), publish.ErrTimeout},
		"no answer":        {silence, publish.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startBroker(t, 0)
			brokers := kgo.SeedBrokers(c.ListenAddrs()...)
			p, err := newPublisher(brokers)
			check.Must(t, err)
			t.Cleanup(p.close)
			for range calls { // each client has published before
				check.Must(t, p.publish(t.Context(), message(10)))
			}
			mend, m := row.fault(t, c), message(100)
			if errors.Is(row.want, publish.ErrTooLarge) {
				m = message(3000)
			}
			check.Await(t, "the answer", func() bool { return errors.Is(class(p.publish(t.Context(), m)), row.want) })
			mend()
			wait := map[string]publish.Message{}
			for range calls {
				m := message(100)
				wait[m.ID] = m
				check.Await(t, "a confirm", func() bool { return p.publish(t.Context(), m) == nil })
			}
			receive(t, brokers, wait)
		})
	}
}

// class returns what an error tells a relay.
func class(err error) error {
	for _, class := range []error{nil, publish.ErrReturned, publish.ErrNotSent, publish.ErrTimeout, publish.ErrTooLarge} {
		if errors.Is(err, class) {
			return class
		}
	}
	return errRefused
}

func TestTheProgramPrintsWhatAConsumerGets(t *testing.T) {
	t.Setenv("DATABASE_URL", servers.Database(t))
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

// message has a body of random bytes.
func message(size int) publish.Message {
	m := publish.Message{
		ID: rand.Text(), Topic: "order.changed", Group: "17", Body: make([]byte, size),
		ContentType: "application/octet-stream", Headers: map[string]any{"tenant": "ä"},
	}
	_, _ = rand.Read(m.Body)
	return m
}

// receive waits for the records of these messages, and compares them. Some may come twice.
func receive(t *testing.T, brokers kgo.Opt, wait map[string]publish.Message) {
	consumer, err := kgo.NewClient(brokers, kgo.ConsumeTopics(kafkaTopic))
	check.Must(t, err)
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), check.Limit)
	defer cancel()
	for len(wait) > 0 {
		if ctx.Err() != nil {
			t.Fatalf("%d records have not arrived", len(wait))
		}
		consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			headers := map[string]string{}
			for _, h := range r.Headers {
				headers[h.Key] = string(h.Value)
			}
			m, first := wait[headers["message-id"]]
			if !first {
				return
			}
			delete(wait, m.ID)
			got := []string{string(r.Key), headers["topic"], headers["tenant"], headers["content-type"], string(r.Value)}
			if want := []string{m.Group, m.Topic, "ä", m.ContentType, string(m.Body)}; !slices.Equal(got, want) {
				t.Errorf("a record with %q, want %q", got, want)
			}
		})
	}
}
