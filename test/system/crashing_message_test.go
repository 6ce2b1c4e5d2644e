package system

import (
	"slices"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9AMessageThatCrashesTheConsumerHarmsNoOther has one message among many good ones that
// kills the process each time it is delivered. More messages arrive all the time, and the
// test starts the service again after each crash.
func TestP9AMessageThatCrashesTheConsumerHarmsNoOther(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ limit, before int }{
		"among others, and a limit of 20":    {limit: 20, before: 40},
		"the first of all, and a limit of 5": {limit: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.declareExchange()
			crashing, others := orderFor("crash@example.com"), newOrders(80)
			dead := s.recordExchanges(deadLetterExchange)
			settings := []string{
				quickRetries, "DELIVERY_LIMIT=" + strconv.Itoa(test.limit), "CONSUMER_PREFETCH=32",
				"CRASH_AT=consumer.arrived", "CRASH_ON=" + crashing.MessageId,
			}
			s.startConsumer(settings...).stop() // declares the queue
			s.publish(slices.Concat(others[:test.before], []amqp.Publishing{crashing}, others[test.before:])...)

			kills := 0
			for ; kills <= 40; kills++ {
				service := s.runWithCrashPoints(settings...)
				if !service.diesBeforeDeadLetter(dead) {
					break
				}
				s.expireLeases()
				more := newOrders(5)
				others = append(others, more...)
				s.publish(more...)
			}
			// The broker may dead-letter the message before the test sees that the last process has died.
			s.startConsumer(settings[:len(settings)-2]...)
			s.awaitCount(s.notificationsDB, len(others), sentCount)
			s.awaitQueueDrained()
			d := s.takeMessages(deadLetterQueue, 1)[0]
			if d.MessageId != crashing.MessageId || d.Headers["x-first-death-reason"] != "delivery_limit" {
				t.Errorf("the dead letter is %s %v, want the message that reached its delivery limit", d.MessageId, d.Headers)
			}
			wantUnchanged(t, d, crashing)
			t.Logf("%d kills, %d other messages", kills, len(others))
		})
	}
}

// diesBeforeDeadLetter waits until the process dies or a message is dead-lettered, and
// reports whether the process died.
func (s *service) diesBeforeDeadLetter(dead *recorder) bool {
	s.Helper()
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.After(awaitTimeout); ; {
		select {
		case <-s.ended:
			return true
		case <-ask.C:
			if len(dead.await(0)) > 0 {
				return false
			}
		case <-deadline:
			s.Fatal("the process did not die, and no message was dead-lettered")
		}
	}
}

// TestP9AMessageThatCrashesTheMailerIsDeadLettered kills the process while it holds the
// lease of the e-mail. The next process finds the lease, and copies the message to a retry
// queue until the lease has ended. For the copy, the broker counts deliveries from zero, so
// the service keeps its own count in a header, which starts near its limit here.
func TestP9AMessageThatCrashesTheMailerIsDeadLettered(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.recordExchanges(quickTiers[0])
	crashing, others := orderFor("crash@example.com"), newOrders(10)
	crashing.Headers = amqp.Table{"elsewhere-count": int64(48)} // of 50
	asked := make(chan struct{}, 10)
	s.mail.refuse("crash@example.com", func(int) error {
		asked <- struct{}{}
		<-t.Context().Done()
		return nil
	})
	dying := s.startConsumer(quickRetries)
	s.publish(crashing)
	<-asked
	dying.kill()

	next := s.startConsumer(quickRetries)
	s.publish(others...)
	dead := s.takeMessages(deadLetterQueue, 1)[0]
	wantUnchanged(t, dead, crashing)
	wantHeaders(t, dead, amqp.Table{
		"original-exchange": eventsExchange, "retry-count": int64(0), "failure-code": "never-completed", "elsewhere-count": int64(50),
	})
	if got := len(copies.copiesOf(crashing.MessageId)); got != 2 {
		t.Errorf("it was copied to a retry queue %d times, want 2", got)
	}
	s.awaitCount(s.notificationsDB, len(others), sentCount)
	s.wantOneEmailEach(others...)
	next.awaitMetric("consumer_retries_total", 0)
}
