package system

import (
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9AFailingMessageGoesThroughEveryRetryQueue has an order that always fails, one that fails
// twice, and others after them.
func TestP9AFailingMessageGoesThroughEveryRetryQueue(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.recordExchanges(quickTiers...)
	never, later, others := orderFor("never@example.com"), orderFor("later@example.com"), newOrders(30)
	never.Headers = amqp.Table{
		"kept": "yes", "x-mine": "yes", "x-death": []any{}, "CC": []any{"order.confirmed"},
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	never.CorrelationId, never.Priority = "kept", 3
	mend := s.failOrders("P0001", never, later)
	service := s.startConsumer("CONSUMER_GIVE_UP=6s")
	s.publish(append([]amqp.Publishing{never, later}, others...)...)
	s.awaitCount(s.notificationsDB, len(others), sentCount)
	if !eventually(awaitTimeout, func() bool { return len(copies.copiesOf(later.MessageId)) >= 2 }) {
		t.Fatal("it was not retried twice")
	}
	mend(later)

	dead := s.takeMessages(deadLetterQueue, 1)[0]
	wantUnchanged(t, dead, never)
	tiers := copies.copiesOf(never.MessageId)
	wantHeaders(t, dead, amqp.Table{
		"kept": "yes", "x-mine": "yes", "original-cc": []any{"order.confirmed"},
		"traceparent": never.Headers["traceparent"], "original-exchange": eventsExchange,
		"retry-count": int64(len(tiers)), "failure-code": "retries-exhausted",
	})
	if len(tiers) < 4 {
		t.Fatalf("it was retried %d times, want at least 4 times in 6 s", len(tiers))
	}
	wantTiers(t, tiers[:4], append(slices.Clone(quickTiers), quickTiers[2])) // the last delay repeats
	wantTiers(t, copies.copiesOf(later.MessageId)[:2], quickTiers[:2])
	s.awaitCount(s.notificationsDB, 1+len(others), sentCount)
	s.wantOneEmailEach(append(others, later)...)
	service.awaitMetric(`consumer_messages_total{outcome="retried"}`, float64(len(copies.await(0))))
	service.awaitMetric(`consumer_messages_total{outcome="dead_lettered"}`, 1)
	s.wantNoDeadLetters()
}

// wantTiers wants one copy in each of these exchanges, with an increasing retry-count.
func wantTiers(t *testing.T, copies []amqp.Delivery, tiers []string) {
	t.Helper()
	var got []string
	for i, c := range copies {
		got = append(got, c.Exchange)
		if c.Headers["retry-count"] != int64(i+1) {
			t.Errorf("copy %d has retry-count %v", i+1, c.Headers["retry-count"])
		}
		for name := range c.Headers {
			if strings.HasPrefix(name, "x-") && name != "x-mine" || name == "CC" {
				t.Errorf("copy %d has the header %s", i+1, name)
			}
		}
	}
	if !slices.Equal(got, tiers) {
		t.Errorf("it went through %v, want %v", got, tiers)
	}
}

// TestP9AnErrorOfOneOrderDelaysNoOther has one order among many that cannot be recorded for a
// while. It waits in the retry queues.
func TestP9AnErrorOfOneOrderDelaysNoOther(t *testing.T) {
	t.Parallel()
	failing := func(code string) func(*system, amqp.Publishing) func() {
		return func(s *system, m amqp.Publishing) func() {
			mend := s.failOrders(code, m)
			return func() { mend(m) }
		}
	}
	for name, begin := range map[string]func(*system, amqp.Publishing) (mend func()){
		"its row is locked":       (*system).lockOrder,
		"a deadlock":              failing("40P01"),
		"a serialization failure": failing("40001"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			copies := s.recordExchanges(quickTiers...)
			running, first := s.startWarmConsumer()
			bad, orders := orderFor("bad@example.com"), newOrders(60)
			mend := begin(s, bad)
			s.publish(slices.Insert(slices.Clone(orders), len(orders)/2, bad)...)
			s.wantCount(awaitTimeout, s.notificationsDB, 1+len(orders), sentCount)
			copies.await(2)

			mend()
			s.wantCount(awaitTimeout, s.notificationsDB, 2+len(orders), sentCount)
			s.wantOneEmailEach(append(orders, first, bad)...)
			s.wantNothingFailed(running)
			if n := len(copies.copiesOf(bad.MessageId)); n != len(copies.await(0)) {
				t.Errorf("%d copies are of the order that failed, and %d in all", n, len(copies.await(0)))
			}
		})
	}
}

// TestP9ARecipientThatDoesNotExistIsAFailedEmail at once. No log has data of a customer, although
// the mail server's answer does.
func TestP9ARecipientThatDoesNotExistIsAFailedEmail(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	running, first := s.startWarmConsumer()
	bad, orders := orderFor("bad@shop-1.example"), newOrders(goodCount)
	s.mail.answer(answers{rcpt: onlyFor("bad@shop-1.example", refusal(550, 5, 1, 1))})
	s.publish(append([]amqp.Publishing{bad}, orders...)...)
	s.awaitCount(s.notificationsDB, 1+goodCount, sentCount)
	s.awaitCount(s.notificationsDB, 1, failedCount+" AND failure_code = 'invalid' AND id = '"+bad.MessageId+"'")
	if asked := s.mail.timesAsked("bad@shop-1.example"); asked != 1 {
		t.Errorf("the server was asked %d times", asked)
	}
	s.wantOneEmailEach(append(orders, first)...)
	for _, output := range []string{
		running.lastLogLines(1 << 20),
		s.runCommand(notificationService, "outbox", "list"), s.runCommand(notificationService, "outbox", "show", bad.MessageId),
	} {
		for _, secret := range []string{"bad@", "first@"} {
			if strings.Contains(output, secret) {
				t.Errorf("%q is in %s", secret, output)
			}
		}
	}

	s.mail.acceptAll()
	s.runCommand(notificationService, "outbox", "replay", "--all")
	s.awaitCount(s.notificationsDB, 2+goodCount, sentCount)
	s.wantOneEmailEach(append(orders, first, bad)...)
}
