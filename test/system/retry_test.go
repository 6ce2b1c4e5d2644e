package system

import (
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9ATemporaryRefusalUsesEveryRetryTier has a recipient who is always refused for now,
// one who is accepted at the third attempt, and others after them.
func TestP9ATemporaryRefusalUsesEveryRetryTier(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.recordExchanges(quickTiers...)
	never, later, others := orderFor("never@example.com"), orderFor("later@example.com"), newOrders(30)
	s.mail.refuse("never@example.com", refused(451, always))
	s.mail.refuse("later@example.com", refused(451, 2))
	never.Headers = amqp.Table{
		"kept": "yes", "x-mine": "no", "x-death": []any{}, "CC": []any{"order.confirmed"},
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	never.CorrelationId, never.Priority = "kept", 3
	service := s.startConsumer(quickRetries)
	s.publish(append([]amqp.Publishing{never, later}, others...)...)
	s.awaitCount(s.notificationsDB, 1+len(others), sentCount)

	dead := s.takeMessages(deadLetterQueue, 1)[0]
	wantUnchanged(t, dead, never)
	wantHeaders(t, dead, amqp.Table{
		"kept": "yes", "traceparent": never.Headers["traceparent"], "original-exchange": eventsExchange,
		"retry-count": int64(3), "failure-code": "retries-exhausted",
	})
	wantTiers(t, copies.copiesOf(never.MessageId), quickTiers)
	wantTiers(t, copies.copiesOf(later.MessageId), quickTiers[:2])
	if got := copies.await(0); len(got) != 5 {
		t.Errorf("%d copies in retry queues, want 5: %v", len(got), messageIDs(got))
	}
	if never, later := s.mail.attemptsFor("never@example.com"), s.mail.attemptsFor("later@example.com"); never != 4 || later != 3 {
		t.Errorf("%d and %d attempts, want 4 and 3", never, later)
	}
	s.wantOneEmailEach(append(others, later)...)
	service.awaitMetric("consumer_retries_total", 5)
	service.awaitMetric("consumer_retry_exhaustions_total", 1)
	service.awaitMetric("consumer_dlq_published_total", 1)
	s.wantNoDeadLetters()
}

// TestP9ARefusedRecipientIsDeadLetteredAtOnce refuses one recipient for good and another one
// for now. Both replies wait until all others have their e-mails.
func TestP9ARefusedRecipientIsDeadLetteredAtOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.recordExchanges(quickTiers...)
	othersSent := make(chan struct{})
	for address, code := range map[string]int{"bad@example.com": 550, "busy@example.com": 451} {
		refusal := refused(code, always)
		s.mail.refuse(address, func(attempt int) error {
			<-othersSent
			return refusal(attempt)
		})
	}
	bad, busy, others := orderFor("bad@example.com"), orderFor("busy@example.com"), newOrders(40)
	service := s.startConsumer(quickRetries)
	s.publish(others[0])
	// After its first success, the consumer takes many messages at a time.
	s.awaitCount(s.notificationsDB, 1, sentCount)
	s.publish(append([]amqp.Publishing{bad, busy}, others[1:]...)...)
	s.awaitCount(s.notificationsDB, len(others), sentCount)
	close(othersSent)

	dead := s.takeMessages(deadLetterQueue, 2)
	if dead[0].MessageId != bad.MessageId {
		slices.Reverse(dead)
	}
	wantUnchanged(t, dead[0], bad)
	wantHeaders(t, dead[0], amqp.Table{"original-exchange": eventsExchange, "retry-count": int64(0), "failure-code": "recipient-refused"})
	wantUnchanged(t, dead[1], busy)
	if got := s.mail.attemptsFor("bad@example.com"); got != 1 {
		t.Errorf("%d attempts for a refused recipient, want one", got)
	}
	wantTiers(t, copies.copiesOf(bad.MessageId), nil)
	wantTiers(t, copies.copiesOf(busy.MessageId), quickTiers)
	s.wantOneEmailEach(others...)
	wantNoAddress(t, service)
}

// wantNoAddress wants no customer's address and no product in the log. The mail server's
// replies may contain the address.
func wantNoAddress(t *testing.T, s *service) {
	t.Helper()
	for line := range strings.Lines(s.lastLogLines(1 << 20)) {
		for _, secret := range []string{"bad@example.com", "busy@example.com", "sku123"} {
			if strings.Contains(line, secret) {
				t.Errorf("the log has data of a customer: %s", line)
			}
		}
	}
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
			if strings.HasPrefix(name, "x-") || name == "CC" {
				t.Errorf("copy %d has the header %s", i+1, name)
			}
		}
	}
	if !slices.Equal(got, tiers) {
		t.Errorf("it went through %v, want %v", got, tiers)
	}
}
