package systemtest

import (
	"slices"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9AMessageThatKillsTheProcessTakesNobodyAlong has one message that ends the process
// each time it arrives, among many good ones. More come all the time, and somebody
// always starts the service again.
func TestP9AMessageThatKillsTheProcessTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ limit, before int }{
		"among others, and a limit of 20":    {limit: 20, before: 40},
		"the first of all, and a limit of 5": {limit: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.declareExchange()
			killer, neighbours := orderOf("killer@example.com"), ordersOf(80)
			dead := s.witness(deadLetterX)
			settings := []string{
				quick, "DELIVERY_LIMIT=" + strconv.Itoa(test.limit), "CONSUMER_PREFETCH=32",
				"CRASH_AT=consumer.arrived", "CRASH_ON=" + killer.MessageId,
			}
			s.consuming(settings...).stop() // the queue is there now
			s.emit(slices.Concat(neighbours[:test.before], []amqp.Publishing{killer}, neighbours[test.before:])...)

			kills := 0
			for ; kills <= 40; kills++ {
				service := s.runCrashing(settings...)
				if !service.dies(dead) {
					break
				}
				s.endLeases()
				more := ordersOf(5)
				neighbours = append(neighbours, more...)
				s.emit(more...)
			}
			s.awaitCount(s.notifications, len(neighbours), sent)
			s.awaitIdle()
			d := s.take(deadLetters, 1)[0]
			if d.MessageId != killer.MessageId || d.Headers["x-first-death-reason"] != "delivery_limit" {
				t.Errorf("the dead letter is %s %v, want the killer for its delivery limit", d.MessageId, d.Headers)
			}
			wantUnchanged(t, d, killer)
			t.Logf("%d kills, %d neighbours", kills, len(neighbours))
		})
	}
}

// dies waits until the process is killed, or something becomes a dead letter.
func (s *service) dies(dead *witness) bool {
	s.Helper()
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.After(patience); ; {
		select {
		case <-s.ended:
			return true
		case <-ask.C:
			if len(dead.await(0)) > 0 {
				return false
			}
		case <-deadline:
			s.Fatal("neither did the process die nor a message")
		}
	}
}

// TestP9AMessageThatKillsWhileItsEmailIsSentEndsAsWell dies with the lease of its e-mail
// in hand: the next process finds that, and puts the message aside until the lease has
// ended. With the copy, the broker begins to count again; so the service counts, and
// here it has done so for a while.
func TestP9AMessageThatKillsWhileItsEmailIsSentEndsAsWell(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.witness(quickTiers[0])
	killer, neighbours := orderOf("killer@example.com"), ordersOf(10)
	killer.Headers = amqp.Table{"elsewhere-count": int64(48)} // of 50
	asked := make(chan struct{}, 10)
	s.mail.refuse("killer@example.com", func(int) error {
		asked <- struct{}{}
		<-t.Context().Done()
		return nil
	})
	dying := s.consuming(quick)
	s.emit(killer)
	<-asked
	dying.kill()

	next := s.consuming(quick)
	s.emit(neighbours...)
	dead := s.take(deadLetters, 1)[0]
	wantUnchanged(t, dead, killer)
	wantHeaders(t, dead, amqp.Table{
		"original-exchange": exchange, "retry-count": int64(0), "failure-code": "never-completed", "elsewhere-count": int64(50),
	})
	if got := len(copies.of(killer.MessageId)); got != 2 {
		t.Errorf("it was put aside %d times, want twice more", got)
	}
	s.awaitCount(s.notifications, len(neighbours), sent)
	s.wantOneLetterEach(neighbours...)
	next.awaitMetric("consumer_retries_total", 0)
}
