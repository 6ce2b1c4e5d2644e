package system

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/contract"
)

// orderFor returns the event of a new order of a customer, as order-service publishes it.
func orderFor(customer string) amqp.Publishing {
	body, err := contract.Events.ReadFile("order.created.json")
	if err != nil {
		panic(err)
	}
	body = bytes.Replace(body, []byte("0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b"), []byte(uuid.NewString()), 1)
	return amqp.Publishing{
		MessageId: uuid.NewString(), Type: createdKey, ContentType: "application/json", AppId: "order-service",
		Timestamp: time.Now().Truncate(time.Second), DeliveryMode: amqp.Persistent,
		Body: bytes.Replace(body, []byte("ada@example.com"), []byte(customer), 1),
	}
}

// goodCount is the number of good messages in tests with a few bad ones.
const goodCount = 20

// shopDomains are the domains of newOrders.
var shopDomains = []string{"shop-0.example", "shop-1.example", "shop-2.example", "shop-3.example"}

// newOrders returns n such events, each of another customer.
func newOrders(n int) (orders []amqp.Publishing) {
	for i := range n {
		orders = append(orders, orderFor(fmt.Sprintf("customer-%d@%s", i, shopDomains[i%len(shopDomains)])))
	}
	return orders
}

// malformed returns a message that the consumer cannot parse.
func malformed() amqp.Publishing {
	m := orderFor("nobody@example.com")
	m.Body = []byte("no JSON")
	return m
}

// publish publishes messages, and waits until the broker has confirmed all of them.
func (s *system) publish(messages ...amqp.Publishing) {
	s.Helper()
	s.withChannel(func(c *amqp.Channel) error {
		var confirms []*amqp.DeferredConfirmation
		for _, m := range messages {
			confirm, err := c.PublishWithDeferredConfirm(eventsExchange, createdKey, true, false, m)
			if err != nil {
				return err
			}
			confirms = append(confirms, confirm)
		}
		for _, confirm := range confirms {
			ctx, cancel := context.WithTimeout(s.Context(), awaitTimeout)
			confirmed, err := confirm.WaitContext(ctx)
			cancel()
			if !confirmed {
				return fmt.Errorf("message %d is not confirmed: %w", confirm.DeliveryTag, err)
			}
		}
		return nil
	})
}

// messageIDs returns the sorted ids of messages.
func messageIDs(messages []amqp.Delivery) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.MessageId)
	}
	slices.Sort(ids)
	return ids
}

// wantOneEmailEach wants exactly one e-mail for each message, and no other e-mails.
func (s *system) wantOneEmailEach(messages ...amqp.Publishing) {
	s.Helper()
	emails, repeated, missing, most := s.mail.emails(), 0, 0, 0
	for _, m := range messages {
		got := len(emails["<"+m.MessageId+"@example.com>"])
		most = max(most, got)
		if got > 1 {
			repeated++
		} else if got == 0 {
			missing++
		}
	}
	if repeated > 0 || missing > 0 || len(emails) != len(messages) {
		s.Errorf("of %d e-mails %d were repeated (up to %d copies) and %d are missing; e-mails of %d messages came",
			len(messages), repeated, most, missing, len(emails))
	}
}

// wantEmails wants e-mails for n different messages, and at most so many repeated ones.
func (s *system) wantEmails(n, repeats int) {
	s.Helper()
	emails, repeated := s.mail.emails(), 0
	for _, same := range emails {
		repeated += len(same) - 1
	}
	if len(emails) != n || repeated > repeats {
		s.Errorf("e-mails of %d messages and %d repeats, want %d and at most %d", len(emails), repeated, n, repeats)
	}
	s.Logf("%d repeated e-mails", repeated)
}

// wantEffects wants the effects of n messages to be recorded, and n e-mails to be marked as sent. A
// message is acknowledged before its e-mail is sent and marked, so it waits for the marks.
func (s *system) wantEffects(n int) {
	s.Helper()
	if got := queryValue[int](s, s.notificationsDB, recordedCount); got != n {
		s.Errorf("%s: got %d, want %d", recordedCount, got, n)
	}
	s.awaitCount(s.notificationsDB, n, sentCount)
}

// wantUnchanged wants a copy to be equal to the published message, except for its headers.
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
		original.MessageId, original.Type, createdKey, original.ContentType, original.AppId, original.CorrelationId,
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
