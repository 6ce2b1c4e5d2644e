package main_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/servers"
)

// TestSIGKILLsLoseNothingAndRepeatNoEffect kills the relays and the consumers in turn, each time
// when more messages have had their effect.
func TestSIGKILLsLoseNothingAndRepeatNoEffect(t *testing.T) {
	t.Parallel()
	const kills, between, orders = 20, 40, 300
	s := newSystem(t)
	s.place()
	programs := []*program{s.start("relay"), s.start("consume"), s.start("relay"), s.start("consume")}
	placing := s.start("order", fmt.Sprint(orders))
	for i := range kills {
		want := s.notifications() + between
		s.await("progress", func() bool { return s.notifications() >= want })
		victim := &programs[i%len(programs)]
		name := (*victim).name
		(*victim).kill()
		*victim = s.start(name)
	}
	placing.wait()
	placing.wantExit(0)
	s.awaitAll()
	for _, p := range programs {
		p.stop()
	}
	s.wantOneNotificationEach()
}

// TestARepeatHasNoSecondEffect kills a relay between confirm and delete, and a consumer between
// commit and ack.
func TestARepeatHasNoSecondEffect(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.place()
	relay, consumer := s.start("relay"), s.start("consume") // which makes the queue
	s.awaitAll()
	relay.stop()
	consumer.stop()

	s.place()
	s.lockOutbox()
	relay = s.start("relay")
	s.awaitLocked()
	relay.kill()
	s.exec("ROLLBACK")

	held := servers.HoldCommits(t, s.databaseURL, "notifications")
	consumer = s.start("consume")
	s.start("relay")
	held.Await()
	consumer.kill()
	held.Release()
	held.AwaitEnd()

	consumer = s.start("consume")
	s.await("the last event handled", func() bool { return consumer.said("version=3") > 0 })
	s.wantOneNotificationEach()
	if got := consumer.said("first=false"); got != 2 {
		t.Errorf("%d repeats, want the relay's and the consumer's", got)
	}
}

func TestAnEventThatNoQueueGetsStays(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.place()
	relay := s.start("relay")
	s.await("the relay's verdict", func() bool { return relay.said("level=") > 0 })
	if got := s.outbox(); got != 3 {
		t.Fatalf("%d events wait, want 3", got)
	}
	s.start("consume") // it makes the queue
	s.awaitAll()
	s.wantOneNotificationEach()
}

// TestAnEventThatAQueueRefusesStays fills a queue: its next message gets a nack.
func TestAnEventThatAQueueRefusesStays(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.place()
	ch := s.channel()
	queue := s.bindQueue(ch, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	relay := s.start("relay")
	var versions []int
	for range 3 {
		s.await("a message", func() bool { return s.waiting(ch, queue) > 0 })
		if len(versions) == 0 {
			s.await("the verdict on the second event", func() bool { return relay.said("level=") == 2 })
			if got := s.outbox(); got != 2 {
				t.Fatalf("%d events wait, want 2", got)
			}
		}
		versions = append(versions, s.get(ch, queue))
	}
	if want := []int{1, 2, 3}; !slices.Equal(versions, want) {
		t.Errorf("got the versions %v, want %v", versions, want)
	}
	s.await("an empty outbox", func() bool { return s.outbox() == 0 })
}

// TestAnEventWithoutAConfirmStays lets the network drop what the relay sends.
func TestAnEventWithoutAConfirmStays(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.place()
	s.start("consume")
	proxy, through := servers.ProxyFor(t, s.brokerURL)
	relay := s.startOn(through, "relay")
	s.await("the first order's notifications", func() bool { return s.notifications() == 3 })
	proxy.Stall()
	s.place()
	s.await("the relay gives up", func() bool { return !relay.Alive() || s.outbox() == 0 })
	if got := s.outbox(); got != 3 {
		t.Fatalf("%d events wait, want 3", got)
	}
	relay.wantExit(1)
	s.start("relay")
	s.awaitAll()
	s.wantOneNotificationEach()
}

func TestABadMessageBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.place()
	s.start("relay")
	s.start("consume")
	s.awaitAll()
	ch := s.channel()
	for _, m := range []amqp.Publishing{{MessageId: "no UUID", Body: []byte("{}")}, {MessageId: "00000000-0000-0000-0000-000000000000", Body: []byte("{")}} {
		if err := ch.PublishWithContext(t.Context(), "minimal.orders", "order.paid", true, false, m); err != nil {
			t.Fatal(err)
		}
	}
	s.place()
	s.awaitAll()
	s.wantOneNotificationEach()
	s.await("two dead letters", func() bool { return s.waiting(ch, "minimal.notifications.dead") == 2 })
}

// TestAnOrderAndItsEventAreOneTransaction breaks the connection between the two.
func TestAnOrderAndItsEventAreOneTransaction(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.place()
	s.lockOutbox()
	order := s.start("order", "1")
	s.awaitLocked()
	s.exec("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'outbox'::regclass AND NOT granted")
	s.exec("ROLLBACK")
	order.wait()
	order.wantExit(1)
	if orders, events := s.count("SELECT count(*) FROM orders"), s.outbox(); orders != 1 || events != 3 {
		t.Errorf("%d orders and %d events, want 1 and 3", orders, events)
	}
}

// TestOrdersAreTakenWithoutTheBroker is why there is an outbox.
func TestOrdersAreTakenWithoutTheBroker(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	away := "amqp://" + servers.FreeAddress(t)
	order := s.startOn(away, "order", "2")
	order.wait()
	order.wantExit(0)
	if got := s.outbox(); got != 6 {
		t.Errorf("%d events wait, want 6", got)
	}
	relay := s.startOn(away, "relay")
	relay.wait()
	relay.wantExit(1)
	if relay.said("minimal: AMQP_URL: ") != 1 {
		t.Error("the relay does not say what is wrong")
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"help"}, 0},
		{nil, 1},
		{[]string{"serve"}, 1},
		{[]string{"order"}, 1},
		{[]string{"order", "none"}, 1},
		{[]string{"order", "0"}, 1},
	} {
		p := s.start(c.args...)
		p.wait()
		p.wantExit(c.code)
		if p.said("usage: ") != 1 {
			t.Errorf("%q: no usage", c.args)
		}
	}
}

// TestTheFileCanBeCopied as it is.
func TestTheFileCanBeCopied(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	const longest = 300
	if lines := bytes.Count(source, []byte("\n")); lines > longest {
		t.Errorf("%d lines, at most %d", lines, longest)
	}
	if bytes.Contains(source, []byte(`"example.com/transactional-outbox`)) {
		t.Error("it imports a package of this repository")
	}
}
