package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

// TestMain is also the program that the tests start and kill.
func TestMain(m *testing.M) {
	if os.Getenv("MINIMAL_TEST") == "program" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestMinimal has a test for each promise. The tests share a broker.
func TestMinimal(t *testing.T) {
	t.Parallel()
	broker := servers.RabbitMQ(t)
	for name, test := range map[string]func(*system){
		"SIGKILLs lose nothing":                      sigkillsLoseNothing,
		"a repeat has no second effect":              repeatHasNoSecondEffect,
		"a returned event stays":                     returnedEventStays,
		"a refused event keeps its place":            refusedEventKeepsItsPlace,
		"an order and its event are one transaction": orderAndEventAreOneTransaction,
		"a bad message becomes a dead letter":        badMessageBecomesDeadLetter,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newSystem(t, broker))
		})
	}
}

// It kills the relays and the consumers in turn, each time when more messages have had their
// effect.
func sigkillsLoseNothing(s *system) {
	const kills, between, orders, events = 20, 40, "300", 900
	names := []string{"relay", "consume", "relay", "consume"}
	var programs []*program
	for _, name := range names {
		programs = append(programs, s.start(name))
	}
	placing := s.start("order", orders)
	for kill := range kills {
		want := s.notifications() + between
		check.Await(s, "progress", func() bool { return s.notifications() >= min(want, events) })
		i := kill % len(programs)
		programs[i].kill()
		programs[i] = s.start(names[i])
	}
	check.Must(s, placing.wait())
	for _, p := range programs {
		p.kill()
	}
	s.start("relay")
	s.start("consume")
	s.place() // so that both have begun when they must end
	s.finish()
}

// It kills a relay between the confirm and the DELETE, and a consumer between the commit and the
// ack.
func repeatHasNoSecondEffect(s *system) {
	s.startConsumer().kill() // the queue stays
	s.place()
	s.lockOutbox()
	relay := s.start("relay")
	s.awaitLocked()
	relay.kill()
	check.Exec(s, s.db, "ROLLBACK")
	s.start("relay")
	check.Await(s, "the first event twice, and two more", func() bool {
		return s.outbox() == 0 && s.inspect(queue).Messages == 4
	})

	held := servers.HoldCommits(s, s.databaseURL, "notifications")
	consumer := s.start("consume")
	held.Await()
	consumer.kill()
	held.Release()
	held.AwaitEnd()
	check.Await(s, "the consumer's message once more in the queue", func() bool {
		return s.notifications() == 1 && s.inspect(queue).Messages == 4
	})
	s.start("consume")
	s.finish()
}

func returnedEventStays(s *system) {
	s.place()
	s.start("relay")
	check.Await(s, "an event that is put off", func() bool { return s.putOff() == 1 })
	if got := s.outbox(); got != 3 {
		s.Fatalf("%d events wait, want 3", got)
	}
	s.start("consume") // it declares the queue
	s.finish()
}

// Its queue has room for one message: the next one gets a nack.
func refusedEventKeepsItsPlace(s *system) {
	const full = "full"
	arguments := amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}
	_, err := s.ch.QueueDeclare(full, true, false, false, false, arguments)
	check.Must(s, err)
	check.Must(s, s.ch.QueueBind(full, "order.*", exchange, false, nil))
	s.place()
	s.start("relay")
	check.Await(s, "the second event put off", func() bool { return s.inspect(full).Messages == 1 && s.putOff() == 1 })
	if got := s.outbox(); got != 2 {
		s.Fatalf("%d events wait, want 2", got)
	}
	for version := 1; version <= 3; version++ {
		check.Await(s, "a message", func() bool { return s.inspect(full).Messages == 1 })
		m, _, err := s.ch.Get(full, true)
		check.Must(s, err)
		var got event
		if err := json.Unmarshal(m.Body, &got); err != nil || got.Version != version {
			s.Fatalf("got %s, want the version %d", m.Body, version)
		}
	}
	check.Await(s, "an empty outbox", func() bool { return s.outbox() == 0 })
}

// It breaks the connection between the order and the event.
func orderAndEventAreOneTransaction(s *system) {
	s.startConsumer()
	s.lockOutbox()
	placing := s.start("order", "1")
	s.awaitLocked()
	check.Exec(s, s.db, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'outbox'::regclass AND NOT granted")
	check.Exec(s, s.db, "ROLLBACK")
	if err := placing.wait(); err == nil {
		s.Error("the program has lost its connection, and does not say so")
	}
	if orders, events := s.count("SELECT count(*) FROM orders"), s.outbox(); orders != 0 || events != 0 {
		s.Errorf("%d orders and %d events, want none", orders, events)
	}
	s.place()
	s.start("relay")
	s.finish()
}

func badMessageBecomesDeadLetter(s *system) {
	s.place()
	s.startConsumer()
	for _, m := range []amqp.Publishing{
		{MessageId: "no UUID", Body: []byte("{}")},
		{MessageId: uuid.NewString(), Body: []byte("{")},
	} {
		check.Must(s, s.ch.PublishWithContext(s.Context(), "", queue, true, false, m))
	}
	s.start("relay")
	s.finish()
	check.Await(s, "two dead letters", func() bool { return s.inspect(deadLetters).Messages == 2 })
}
