package main

import (
	"sync"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestEventsOfTheLogArriveOnceAndInOrder(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.startReading(noPoll)
	var writers sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		writers.Go(func() {
			for range 50 {
				w := &system{T: s.T, pool: s.pool, ids: map[uuid.UUID]bool{}}
				w.append(uuid.New(), "order.created", 1, 2, 3)
				mu.Lock()
				for id := range w.ids {
					s.ids[id] = true
				}
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	s.awaitQueue(0)
	s.wantOnceAndInOrder()
}

// TestARefusedEventHoldsBackItsOrderOnly has a full queue for one key. The order's next event waits
// until the first one is taken.
func TestARefusedEventHoldsBackItsOrderOnly(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	full := newQueue(t, s.name+"_full", "order.refused_"+s.name, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	s.startReading("RELAY_POLL_INTERVAL=100ms", "RELAY_RETRY_BASE=200ms", "RELAY_RETRY_CAP=200ms")
	s.append(uuid.New(), "order.refused_"+s.name, 1) // fills the queue
	s.awaitQueue(0)
	order := uuid.New()
	refused := s.append(order, "order.refused_"+s.name, 1)[0]
	s.append(order, "order.confirmed", 2)
	s.orders(20)
	s.awaitQueue(2)
	s.await("a refusal", func() bool {
		return scan[int](s, "SELECT retry_count FROM outbox_queue WHERE id = $1", refused) > 0
	})
	withChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueuePurge(full.name, false)
		return err
	})
	s.awaitQueue(0)
	last := map[uuid.UUID]int{}
	for _, r := range s.receive() { // the other queue took the refused event each time
		if r.version < last[r.order] {
			t.Errorf("order %s: version %d came after %d", r.order, r.version, last[r.order])
		}
		last[r.order] = r.version
	}
	if last[order] != 2 || len(last) != 22 {
		t.Errorf("%d orders arrived, want 22; version %d of the refused one, want 2", len(last), last[order])
	}
}
