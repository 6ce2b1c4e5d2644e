package systemtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// tier is a retry queue by its name, and what it waits in milliseconds.
type tier struct {
	name string
	ttl  int
}

// TestP8TheServiceOwnsExactlyTheTopologyOfTheDesign reads from the broker what is there
// after a second start.
func TestP8TheServiceOwnsExactlyTheTopologyOfTheDesign(t *testing.T) {
	t.Parallel()
	for settings, tiers := range map[string][]tier{
		"RETRY_DELAYS=30s,1m,5m": {{"30s", 30_000}, {"1m", 60_000}, {"5m", 300_000}},
		"RETRY_DELAYS=250ms,1h":  {{"250ms", 250}, {"1h", 3_600_000}},
	} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.consuming(settings).stop()
			s.consuming(settings) // the broker would refuse what is not the same
			wantLines(t, s.topology(), topologyOf(50, tiers...))
		})
	}
}

// TestP8WhatIsDeletedIsMadeAgain deletes parts of the topology from under a service that
// runs: the broker tells nobody of any of it.
func TestP8WhatIsDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	service := s.consuming()
	want := s.topology()
	s.at(func(c *amqp.Channel) error {
		_, err := c.QueueDelete(retry+"1m", false, false, false)
		must(t, c.ExchangeDelete(deadLetterX, false, false))
		must(t, c.ExchangeDelete(retry+"30s", false, false))
		must(t, c.ExchangeDelete(requeueX, false, false))
		must(t, c.QueueUnbind(mainQueue, "order.confirmed", exchange, nil))
		return err
	})
	s.awaitRoute("order.confirmed") // the last thing that is declared
	wantLines(t, s.topology(), want)
	s.emit(ordersOf(3)...)
	s.awaitCount(s.notifications, 3, sent)
	if got := len(service.all("connected to the broker")); got != 2 {
		t.Errorf("%d connections, and nothing was wrong with the first two", got)
	}
}

// TestAQueueOfOtherArgumentsStopsTheStart has objects at the broker that somebody else
// declared, or this service with other settings.
func TestAQueueOfOtherArgumentsStopsTheStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object, argument string
		declare          func(*amqp.Channel) error
	}{
		"a retry queue of another delay": {retry + "30s", "x-message-ttl", func(c *amqp.Channel) error {
			return declare(c, retry+"30s", "quorum", wayBack(requeueX, amqp.Table{"x-message-ttl": 31_000}))
		}},
		"the queue with another delivery limit": {mainQueue, "x-delivery-limit", func(c *amqp.Channel) error {
			return declare(c, mainQueue, "quorum", wayBack(deadLetterX, amqp.Table{"x-delivery-limit": 3}))
		}},
		"the queue with a less safe strategy": {mainQueue, "x-dead-letter-strategy", func(c *amqp.Channel) error {
			arguments := wayBack(deadLetterX, amqp.Table{"x-delivery-limit": 50})
			delete(arguments, "x-dead-letter-strategy")
			return declare(c, mainQueue, "quorum", arguments)
		}},
		"classic dead letters": {deadLetters, "x-queue-type", func(c *amqp.Channel) error {
			return declare(c, deadLetters, "classic", nil)
		}},
		"an exchange of another type": {requeueX, "type", func(c *amqp.Channel) error {
			return c.ExchangeDeclare(requeueX, "topic", true, false, false, false, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.declareExchange()
			s.at(test.declare)
			service := s.runNotifications()
			service.wait()
			if code := service.command.ProcessState.ExitCode(); code != 1 {
				t.Errorf("it ended with %d, want 1", code)
			}
			for _, word := range []string{"'" + test.object + "'", "'" + test.argument + "'", "delete it"} {
				if said := service.stderr(); !strings.Contains(said, word) {
					t.Errorf("it says %q, without %s", said, word)
				}
			}
		})
	}
}

func declare(c *amqp.Channel, queue, kind string, arguments amqp.Table) error {
	all := amqp.Table{"x-queue-type": kind}
	maps.Copy(all, arguments)
	_, err := c.QueueDeclare(queue, true, false, false, false, all)
	return err
}

// wayBack are the arguments of a queue that dead-letters safely, and one more.
func wayBack(exchange string, more amqp.Table) amqp.Table {
	arguments := amqp.Table{
		"x-dead-letter-exchange": exchange, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	}
	maps.Copy(arguments, more)
	return arguments
}

// topologyOf is the table of the design, one line for each object.
func topologyOf(deliveryLimit int, tiers ...tier) []string {
	lines := []string{
		exchangeLine(exchange, "topic"), exchangeLine(requeueX, "fanout"), exchangeLine(deadLetterX, "fanout"),
		queueLine(mainQueue, wayBack(deadLetterX, amqp.Table{"x-delivery-limit": deliveryLimit})),
		queueLine(deadLetters, amqp.Table{"x-delivery-limit": 1_000_000_000}), // RabbitMQ 4 has a limit of its own
		bindingLine(requeueX, mainQueue, ""), bindingLine(deadLetterX, deadLetters, ""),
	}
	for _, key := range []string{"order.created", "order.confirmed", "order.cancelled"} {
		lines = append(lines, bindingLine(exchange, mainQueue, key))
	}
	for _, t := range tiers {
		lines = append(lines, exchangeLine(retry+t.name, "fanout"), bindingLine(retry+t.name, retry+t.name, ""),
			queueLine(retry+t.name, wayBack(requeueX, amqp.Table{"x-message-ttl": t.ttl})))
	}
	slices.Sort(lines)
	return lines
}

func exchangeLine(name, kind string) string {
	return fmt.Sprintf("exchange %s: %s, durable", name, kind)
}

func queueLine(name string, arguments amqp.Table) string {
	all := amqp.Table{"x-queue-type": "quorum"}
	maps.Copy(all, arguments)
	text, _ := json.Marshal(all) // its names are sorted
	return fmt.Sprintf("queue %s: %s", name, text)
}

func bindingLine(exchange, queue, key string) string {
	return fmt.Sprintf("binding of %s to %s by %q", queue, exchange, key)
}

// topology is what the broker has in this virtual host, but for what it brings itself.
func (s *system) topology() (lines []string) {
	s.Helper()
	for _, e := range s.list("exchanges", "name", "type", "durable", "auto_delete", "internal") {
		if name := e["name"].(string); name != "" && !strings.HasPrefix(name, "amq.") {
			line := exchangeLine(name, e["type"].(string))
			if e["durable"] != true || e["auto_delete"] != false || e["internal"] != false {
				line += fmt.Sprint(", but ", e)
			}
			lines = append(lines, line)
		}
	}
	for _, q := range s.list("queues", "name", "durable", "auto_delete", "arguments") {
		line := queueLine(q["name"].(string), argumentsOf(q))
		if q["durable"] != true || q["auto_delete"] != false {
			line += fmt.Sprint(", but ", q)
		}
		lines = append(lines, line)
	}
	for _, b := range s.list("bindings", "source_name", "destination_name", "routing_key") {
		if b["source_name"] != "" { // the default exchange has each queue by its name
			lines = append(lines, bindingLine(b["source_name"].(string), b["destination_name"].(string), b["routing_key"].(string)))
		}
	}
	slices.Sort(lines)
	return lines
}

// argumentsOf reads triples of name, type and value.
func argumentsOf(queue map[string]any) amqp.Table {
	arguments := amqp.Table{}
	for _, argument := range queue["arguments"].([]any) {
		triple := argument.([]any)
		arguments[triple[0].(string)] = triple[2]
		if number, ok := triple[2].(float64); ok {
			arguments[triple[0].(string)] = int64(number)
		}
	}
	return arguments
}

// list asks rabbitmqctl for columns of the objects of one kind.
func (s *system) list(kind string, columns ...string) (rows []map[string]any) {
	s.Helper()
	output, err := s.broker.Ctl(s.Context(), append([]string{"list_" + kind, "--formatter", "json", "-p", s.vhost()}, columns...)...)
	must(s.T, err)
	if err := json.Unmarshal([]byte(output), &rows); err != nil {
		s.Fatalf("%v: %s", err, output)
	}
	return rows
}

// awaitRoute waits until a queue is bound for a key: the service looks every 10 s.
func (s *system) awaitRoute(key string) {
	s.Helper()
	ask := time.NewTicker(50 * time.Millisecond)
	defer ask.Stop()
	s.at(func(c *amqp.Channel) error {
		must(s.T, c.Confirm(false))
		returns := c.NotifyReturn(make(chan amqp.Return, 1))
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-ask.C {
			confirm, err := c.PublishWithDeferredConfirm(exchange, key, true, false, amqp.Publishing{})
			if err != nil || !confirm.Wait() {
				return err
			}
			select {
			case <-returns: // before the confirm
			default:
				return nil
			}
		}
		return fmt.Errorf("nothing is bound for %s", key)
	})
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
			t.Errorf("the broker has not: %s", line)
		}
	}
}

// stderr is what a process said last that has ended.
func (s *service) stderr() string {
	said, err := os.ReadFile(s.command.Stderr.(*os.File).Name())
	must(s.T, err)
	return string(said)
}
