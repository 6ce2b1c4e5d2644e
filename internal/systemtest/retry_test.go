package systemtest

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestP9ARefusalForNowGoesThroughEveryTier has a customer whose server never takes an
// e-mail now, one whose server takes the third, and others behind them.
func TestP9ARefusalForNowGoesThroughEveryTier(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.witness(quickTiers...)
	never, later, others := orderOf("never@example.com"), orderOf("later@example.com"), ordersOf(30)
	s.mail.refuse("never@example.com", refused(451, always))
	s.mail.refuse("later@example.com", refused(451, 2))
	never.Headers = amqp.Table{
		"kept": "yes", "x-mine": "no", "x-death": []any{}, "CC": []any{"order.confirmed"},
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	never.CorrelationId, never.Priority = "kept as well", 3
	service := s.consuming(quick)
	s.emit(append([]amqp.Publishing{never, later}, others...)...)
	s.awaitCount(s.notifications, 1+len(others), sent)

	dead := s.take(deadLetters, 1)[0]
	wantUnchanged(t, dead, never)
	wantHeaders(t, dead, amqp.Table{
		"kept": "yes", "traceparent": never.Headers["traceparent"], "original-exchange": exchange,
		"retry-count": int64(3), "failure-code": "retries-exhausted",
	})
	wantTiers(t, copies.of(never.MessageId), quickTiers)
	wantTiers(t, copies.of(later.MessageId), quickTiers[:2])
	if got := copies.await(0); len(got) != 5 {
		t.Errorf("%d copies in retry queues, want 5: %v", len(got), ids(got))
	}
	if never, later := s.mail.triesOf("never@example.com"), s.mail.triesOf("later@example.com"); never != 4 || later != 3 {
		t.Errorf("%d and %d tries, want 4 and 3", never, later)
	}
	s.wantOneLetterEach(append(others, later)...)
	service.awaitMetric("consumer_retries_total", 5)
	service.awaitMetric("consumer_retry_exhaustions_total", 1)
	service.awaitMetric("consumer_dlq_published_total", 1)
	s.wantNoneDead()
}

// TestP9ABadRecipientIsADeadLetterAtOnceAndHoldsUpNobody refuses one customer for good,
// and another one for now; both answers wait until all others have their e-mails.
func TestP9ABadRecipientIsADeadLetterAtOnceAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.witness(quickTiers...)
	othersServed := make(chan struct{})
	for address, code := range map[string]int{"bad@example.com": 550, "busy@example.com": 451} {
		refusal := refused(code, always)
		s.mail.refuse(address, func(try int) error {
			<-othersServed
			return refusal(try)
		})
	}
	bad, busy, others := orderOf("bad@example.com"), orderOf("busy@example.com"), ordersOf(40)
	service := s.consuming(quick)
	s.emit(others[0])
	s.awaitCount(s.notifications, 1, sent) // from here on it takes many at a time
	s.emit(append([]amqp.Publishing{bad, busy}, others[1:]...)...)
	s.awaitCount(s.notifications, len(others), sent)
	close(othersServed)

	dead := s.take(deadLetters, 2)
	if dead[0].MessageId != bad.MessageId {
		slices.Reverse(dead)
	}
	wantUnchanged(t, dead[0], bad)
	wantHeaders(t, dead[0], amqp.Table{"original-exchange": exchange, "retry-count": int64(0), "failure-code": "recipient-refused"})
	wantUnchanged(t, dead[1], busy)
	if got := s.mail.triesOf("bad@example.com"); got != 1 {
		t.Errorf("%d tries for a refused recipient, want one", got)
	}
	wantTiers(t, copies.of(bad.MessageId), nil)
	wantTiers(t, copies.of(busy.MessageId), quickTiers)
	s.wantOneLetterEach(others...)
	wantNoAddress(t, service)
}

// wantNoAddress wants no customer's address in the log, where the mail server's answers
// may repeat it, and nothing of an order either.
func wantNoAddress(t *testing.T, s *service) {
	t.Helper()
	for line := range strings.Lines(s.tail(1 << 20)) {
		for _, of := range []string{"bad@example.com", "busy@example.com", "sku123"} {
			if strings.Contains(line, of) {
				t.Errorf("the log tells of a customer: %s", line)
			}
		}
	}
}

// wantTiers wants copies to have gone through these exchanges, with a count that grows.
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
				t.Errorf("copy %d carries %s", i+1, name)
			}
		}
	}
	if !slices.Equal(got, tiers) {
		t.Errorf("it went through %v, want %v", got, tiers)
	}
}

// wantUnchanged wants a copy to be what was published, but for its headers.
func wantUnchanged(t *testing.T, copied amqp.Delivery, original amqp.Publishing) {
	t.Helper()
	if !bytes.Equal(copied.Body, original.Body) {
		t.Errorf("the body was %q and is %q", shortened(original.Body), shortened(copied.Body))
	}
	type properties struct {
		id, kind, key, content, app, correlation string
		timestamp                                int64
		mode, priority                           uint8
	}
	was := properties{
		original.MessageId, original.Type, created, original.ContentType, original.AppId, original.CorrelationId,
		original.Timestamp.Unix(), amqp.Persistent, original.Priority,
	}
	is := properties{
		copied.MessageId, copied.Type, copied.RoutingKey, copied.ContentType, copied.AppId, copied.CorrelationId,
		copied.Timestamp.Unix(), copied.DeliveryMode, copied.Priority,
	}
	if is != was {
		t.Errorf("it was %+v and is %+v", was, is)
	}
}

func shortened(body []byte) []byte { return body[:min(len(body), 200)] }

// wantHeaders wants a dead letter to have these headers, a reason and a time, and no
// others; x-delivery-count is the queue's own.
func wantHeaders(t *testing.T, dead amqp.Delivery, want amqp.Table) {
	t.Helper()
	for name, value := range want {
		if dead.Headers[name] != value {
			t.Errorf("header %s is %v, want %v", name, dead.Headers[name], value)
		}
	}
	if reason, _ := dead.Headers["failure-reason"].(string); reason == "" {
		t.Errorf("no reason in %v", dead.Headers)
	}
	at, _ := dead.Headers["failed-at"].(string)
	if _, err := time.Parse(time.RFC3339, at); err != nil {
		t.Errorf("no time in %v", dead.Headers)
	}
	for name := range dead.Headers {
		_, wanted := want[name]
		if !wanted && !slices.Contains([]string{"failure-reason", "failed-at", "x-delivery-count"}, name) {
			t.Errorf("header %s was carried over", name)
		}
	}
}
