package system

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// tier is a retry queue: its delay as in its name, and in milliseconds.
type tier struct {
	name string
	ttl  int
}

// TestP8TheServiceDeclaresExactlyItsTopology compares the broker's objects after a second
// start with the documented topology.
func TestP8TheServiceDeclaresExactlyItsTopology(t *testing.T) {
	t.Parallel()
	for settings, tiers := range map[string][]tier{
		"RETRY_DELAYS=30s,1m,5m": {{"30s", 30_000}, {"1m", 60_000}, {"5m", 300_000}},
		"RETRY_DELAYS=250ms,1h":  {{"250ms", 250}, {"1h", 3_600_000}},
	} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.startConsumer(settings).stop()
			s.startConsumer(settings) // the broker refuses a declaration that differs
			wantLines(t, s.topology(), topologyOf(tiers...))
		})
	}
}

// TestP8DeletedTopologyIsDeclaredAgain deletes parts of the topology while the service runs.
// The broker does not report this to the service.
func TestP8DeletedTopologyIsDeclaredAgain(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	service := s.startConsumer("RETRY_DELAYS=30s,1m,5m")
	want := s.topology()
	s.withChannel(func(c *amqp.Channel) error {
		_, err := c.QueueDelete(retryPrefix+"1m", false, false, false)
		must(t, c.ExchangeDelete(deadLetterExchange, false, false))
		must(t, c.ExchangeDelete(retryPrefix+"30s", false, false))
		must(t, c.ExchangeDelete(requeueExchange, false, false))
		must(t, c.QueueUnbind(mainQueue, "order.confirmed", eventsExchange, nil))
		return err
	})
	eventually(func() bool { return len(s.topology()) == len(want) }) // the service checks every 10 s
	wantLines(t, s.topology(), want)
	s.publish(publishings(newEvents(3))...)
	s.awaitCount(s.notificationsDB, 3, sentCount)
	connections := 2
	for _, l := range service.logLines("no session with the broker, trying again") {
		if strings.Contains(fmt.Sprint(l), "NOT_FOUND") { // deleted between its own declaration and that of a binding
			connections++
		}
	}
	if got := len(service.logLines("connected to the broker")); got != connections {
		t.Errorf("%d connections, want %d", got, connections)
	}
}

// deadLetterArguments returns the arguments of a queue that dead-letters at least once, and
// more arguments.
func deadLetterArguments(exchange string, more amqp.Table) amqp.Table {
	return merge(amqp.Table{
		"x-dead-letter-exchange": exchange, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	}, more)
}

// topologyOf returns the documented topology, one line for each object.
func topologyOf(tiers ...tier) []string {
	lines := []string{
		exchangeLine(eventsExchange, "topic"), exchangeLine(requeueExchange, "fanout"), exchangeLine(deadLetterExchange, "fanout"),
		queueLine(mainQueue, deadLetterArguments(deadLetterExchange, amqp.Table{"x-delivery-limit": 50})),
		// RabbitMQ 4 has a default delivery limit, so the dead-letter queue sets a high one.
		queueLine(deadLetterQueue, amqp.Table{"x-delivery-limit": 1_000_000_000}),
		bindingLine(requeueExchange, mainQueue, ""), bindingLine(deadLetterExchange, deadLetterQueue, ""),
	}
	for _, key := range []string{"order.created", "order.confirmed", "order.cancelled"} {
		lines = append(lines, bindingLine(eventsExchange, mainQueue, key))
	}
	for _, t := range tiers {
		lines = append(lines, exchangeLine(retryPrefix+t.name, "fanout"), bindingLine(retryPrefix+t.name, retryPrefix+t.name, ""),
			queueLine(retryPrefix+t.name, deadLetterArguments(requeueExchange, amqp.Table{"x-message-ttl": t.ttl})))
	}
	slices.Sort(lines)
	return lines
}

func exchangeLine(name, kind string) string {
	return fmt.Sprintf("exchange %s: %s, durable", name, kind)
}

func queueLine(name string, arguments amqp.Table) string {
	text, _ := json.Marshal(merge(quorum, arguments)) // sorts the names
	return fmt.Sprintf("queue %s: %s", name, text)
}

func bindingLine(exchange, queue, key string) string {
	return fmt.Sprintf("binding of %s to %s by %q", queue, exchange, key)
}

// definitions is what the broker exports about all virtual hosts, without its own objects.
type definitions struct {
	Exchanges []struct {
		object
		Type     string
		Internal bool
	}
	Queues []struct {
		object
		Arguments amqp.Table
	}
	Bindings []struct {
		object
		Source, Destination string
		RoutingKey          string `json:"routing_key"`
	}
}

type object struct {
	VHost, Name string
	Durable     bool
	AutoDelete  bool `json:"auto_delete"`
}

// topology returns the objects of this virtual host.
func (s *system) topology() (lines []string) {
	s.Helper()
	output, err := s.broker.Ctl(s.Context(), "export_definitions", "-")
	must(s.T, err)
	var all definitions
	must(s.T, json.Unmarshal([]byte(output), &all))
	add := func(o object, line string, asUsual bool) {
		if !asUsual {
			line += fmt.Sprintf(", but %+v", o)
		}
		if o.VHost == s.vhost() {
			lines = append(lines, line)
		}
	}
	for _, e := range all.Exchanges {
		add(e.object, exchangeLine(e.Name, e.Type), e.Durable && !e.AutoDelete && !e.Internal)
	}
	for _, q := range all.Queues {
		add(q.object, queueLine(q.Name, q.Arguments), q.Durable && !q.AutoDelete)
	}
	for _, b := range all.Bindings {
		add(b.object, bindingLine(b.Source, b.Destination, b.RoutingKey), true)
	}
	slices.Sort(lines)
	return lines
}

func wantLines(t *testing.T, got, want []string) {
	t.Helper()
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("the broker has: %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("the broker does not have: %s", line)
		}
	}
}
