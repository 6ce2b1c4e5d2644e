package browser

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// publish publishes a message to an exchange, and waits for the confirm.
func (s *site) publish(exchange string, m amqp.Publishing) {
	s.Helper()
	connection, err := amqp.Dial(s.broker)
	s.must(err)
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	s.must(err)
	s.must(channel.Confirm(false))
	confirm, err := channel.PublishWithDeferredConfirm(exchange, created, true, false, m)
	s.must(err)
	confirmed, err := confirm.WaitContext(s.Context())
	s.must(err)
	if !confirmed {
		s.Fatal("the broker has not taken the message")
	}
}

const events, deadLetters = "outbox.events", "notification-service.dlx"

// message returns the message of a new order.
func (s *site) message() amqp.Publishing {
	s.Helper()
	body, err := json.Marshal(s.payload(uuid.New()))
	s.must(err)
	return amqp.Publishing{
		MessageId: uuid.NewString(), Type: created, ContentType: "application/json", AppId: orderService,
		Timestamp: time.Now(), DeliveryMode: amqp.Persistent, Body: body, Headers: amqp.Table{},
	}
}

// poison returns a message that the consumer cannot read.
func (s *site) poison() amqp.Publishing {
	m := s.message()
	m.Body = []byte("no JSON")
	return m
}

// givenUp returns a good message with the headers of a dead letter: each attempt has failed.
func (s *site) givenUp() amqp.Publishing {
	m := s.message()
	m.Headers = amqp.Table{
		"failure-code": "transient", "failure-reason": "451 try again later", "retry-count": int64(3),
		"failed-at": time.Now().UTC().Format(time.RFC3339Nano), "original-exchange": events,
	}
	return m
}

// awaitDead waits until the page lists n dead letters.
func (b *tab) awaitDead(s *site, n int) {
	b.Helper()
	b.visitUntil(s.mails.page+"/dead", fmt.Sprintf("document.querySelectorAll('tbody tr').length === %d", n))
}
