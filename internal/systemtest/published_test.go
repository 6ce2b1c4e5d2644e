package systemtest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/contract"
)

// What notification-service owns at the broker.
const (
	mainQueue   = "notification-service"
	deadLetters = "notification-service.dlq"
	deadLetterX = "notification-service.dlx"
	requeueX    = "notification-service.requeue"
	retry       = "notification-service.retry."
)

// created is the key of what these tests publish.
const created = "order.created"

// quick are retry tiers that a test can wait for.
const quick = "RETRY_DELAYS=200ms,400ms,600ms"

var quickTiers = []string{retry + "200ms", retry + "400ms", retry + "600ms"}

// orderOf is the event of a new order, as order-service publishes it. The customer may
// be nobody.
func orderOf(customer string) amqp.Publishing {
	body, err := contract.Events.ReadFile("order.created.json")
	if err != nil {
		panic(err)
	}
	body = bytes.Replace(body, []byte("0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b"), []byte(uuid.NewString()), 1)
	return amqp.Publishing{
		MessageId: uuid.NewString(), Type: created, ContentType: "application/json", AppId: "order-service",
		Timestamp: time.Now().Truncate(time.Second), DeliveryMode: amqp.Persistent,
		Body: bytes.Replace(body, []byte("ada@example.com"), []byte(customer), 1),
	}
}

// ordersOf are the events of n orders, with a customer each.
func ordersOf(n int) (orders []amqp.Publishing) {
	for i := range n {
		orders = append(orders, orderOf(fmt.Sprintf("customer-%d@example.com", i)))
	}
	return orders
}

// emit publishes past order-service, and returns when the broker has all of it.
func (s *system) emit(messages ...amqp.Publishing) {
	s.Helper()
	s.at(func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		var confirms []*amqp.DeferredConfirmation
		for _, m := range messages {
			confirm, err := c.PublishWithDeferredConfirm(exchange, created, true, false, m)
			if err != nil {
				return err
			}
			confirms = append(confirms, confirm)
		}
		for _, confirm := range confirms {
			if !confirm.Wait() {
				return fmt.Errorf("message %d is not confirmed", confirm.DeliveryTag)
			}
		}
		return nil
	})
}

// consuming starts notification-service where events are published, and waits until it
// takes messages.
func (s *system) consuming(settings ...string) *service {
	s.Helper()
	s.declareExchange()
	service := s.runNotifications(settings...)
	service.await("taking messages")
	return service
}

// take empties a queue of n messages, and wants no more to be in it.
func (s *system) take(queue string, n int) (messages []amqp.Delivery) {
	s.Helper()
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	s.at(func(c *amqp.Channel) error {
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			d, ok, err := c.Get(queue, true)
			switch {
			case err != nil:
				return err
			case ok:
				messages = append(messages, d)
			case len(messages) >= n:
				return nil
			default:
				<-ask.C
			}
		}
		return nil
	})
	if len(messages) != n {
		s.Fatalf("%d messages in %s, want %d", len(messages), queue, n)
	}
	return messages
}

// ids are sorted.
func ids(messages []amqp.Delivery) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.MessageId)
	}
	slices.Sort(ids)
	return ids
}

// wantOneLetterEach wants exactly one e-mail of each message, and no other.
func (s *system) wantOneLetterEach(messages ...amqp.Publishing) {
	s.Helper()
	letters := s.mail.letters()
	for _, m := range messages {
		if got := len(letters["<"+m.MessageId+"@example.com>"]); got != 1 {
			s.Errorf("%d e-mails of message %s, want one", got, m.MessageId)
		}
	}
	if len(letters) != len(messages) {
		s.Errorf("e-mails of %d messages, want of %d", len(letters), len(messages))
	}
}

// witness keeps everything that exchanges get.
type witness struct {
	*testing.T
	mu   sync.Mutex
	seen []amqp.Delivery
	news *sync.Cond
}

// witness binds a queue of the test's own to fanout exchanges, which it makes as the
// service does, so that it may come first.
func (s *system) witness(exchanges ...string) *witness {
	s.Helper()
	w := &witness{T: s.T}
	w.news = sync.NewCond(&w.mu)
	channel := (&tap{T: s.T}).dial(s.brokerURL)
	queue, err := channel.QueueDeclare("", false, false, true, false, nil)
	must(s.T, err)
	for _, exchange := range exchanges {
		must(s.T, channel.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil))
		must(s.T, channel.QueueBind(queue.Name, "", exchange, false, nil))
	}
	deliveries, err := channel.Consume(queue.Name, "", true, true, false, false, nil)
	must(s.T, err)
	go func() {
		for d := range deliveries {
			w.mu.Lock()
			w.seen = append(w.seen, d)
			w.mu.Unlock()
			w.news.Broadcast()
		}
	}()
	return w
}

// await waits until so many copies have come, and returns all.
func (w *witness) await(n int) []amqp.Delivery {
	w.Helper()
	deadline := time.Now().Add(patience)
	impatience := time.AfterFunc(patience, w.news.Broadcast)
	defer impatience.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.seen) < n {
		if time.Now().After(deadline) {
			w.Fatalf("%d copies came, want %d", len(w.seen), n)
		}
		w.news.Wait()
	}
	return slices.Clone(w.seen)
}

// of returns the copies of one message so far.
func (w *witness) of(id string) []amqp.Delivery {
	return slices.DeleteFunc(w.await(0), func(d amqp.Delivery) bool { return d.MessageId != id })
}
