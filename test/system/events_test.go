package system

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/contract"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/test/env/services"
)

// createdKey is the routing key of the events that most tests publish.
const createdKey = "order.created"

// appendEvent appends an event of a new order to an outbox, executes statements with its id, $1, in
// the same transaction, and returns the id.
func (s *system) appendEvent(db *pgxpool.Pool, topic string, statements ...string) (id string) {
	s.Helper()
	e := outbox.Event{
		ID: uuid.New(), Topic: topic, Aggregate: "order", AggregateID: uuid.NewString(), Version: 1, Payload: []byte("{}"),
	}
	must(s.T, pgx.BeginFunc(s.Context(), db, func(tx pgx.Tx) error {
		err := outbox.Append(s.Context(), tx, e)
		for _, statement := range statements {
			if err == nil {
				_, err = tx.Exec(s.Context(), statement, e.ID)
			}
		}
		return err
	}))
	return e.ID.String()
}

// appendFailed appends an event that has failed.
func (s *system) appendFailed(db *pgxpool.Pool) (id string) {
	s.Helper()
	return s.appendEvent(db, createdKey, `UPDATE outbox_queue SET available_at = 'infinity', retry_count = 20,
		failure_code = 'refused', failure_reason = 'a queue refused it', failed_at = now() WHERE id = $1`)
}

// orderEvent is an event as order-service publishes it. Each event has its own e-mail address, so
// that the mail server can tell them apart.
type orderEvent struct {
	id, order uuid.UUID
	key       string
	version   int
}

// newEvents returns the first events of n orders.
func newEvents(n int) (events []orderEvent) {
	for range n {
		events = append(events, orderEvent{uuid.New(), uuid.New(), createdKey, 1})
	}
	return events
}

// lifecycleEvents returns the three events of one order.
func lifecycleEvents() []orderEvent {
	order := uuid.New()
	return []orderEvent{
		{uuid.New(), order, "order.created", 1},
		{uuid.New(), order, "order.confirmed", 2},
		{uuid.New(), order, "order.cancelled", 3},
	}
}

func (e orderEvent) messageID() string { return "<" + e.id.String() + "@example.com>" }

func (e orderEvent) publishing() amqp.Publishing {
	body, err := contract.Events.ReadFile(e.key + ".json")
	if err != nil {
		panic(err)
	}
	body = regexp.MustCompile(`"order_version": \d`).ReplaceAll(body, fmt.Appendf(nil, `"order_version": %d`, e.version))
	body = bytes.Replace(body, []byte("0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b"), []byte(e.order.String()), 1)
	return amqp.Publishing{
		MessageId: e.id.String(), Type: e.key, ContentType: "application/json", AppId: services.Orders,
		Timestamp: time.Now(), DeliveryMode: amqp.Persistent,
		Body: bytes.Replace(body, []byte("ada@example.com"), []byte(e.id.String()+"@customer.example"), 1),
	}
}

// malformed returns a message that the consumer cannot parse.
func malformed() amqp.Publishing {
	m := newEvents(1)[0].publishing()
	m.Body = []byte("no JSON")
	return m
}

func publishings(events []orderEvent) (messages []amqp.Publishing) {
	for _, e := range events {
		messages = append(messages, e.publishing())
	}
	return messages
}

// refuse makes each attempt to record the progress of an order fail that does not meet a condition,
// until it is mended.
func (s *system) refuse(condition string) (mend func()) {
	s.Helper()
	name := "refused_" + strings.ReplaceAll(uuid.NewString(), "-", "_")
	s.exec(s.notificationsDB, fmt.Sprintf("ALTER TABLE order_progress ADD CONSTRAINT %s CHECK (%s) NOT VALID", name, condition))
	return func() { s.exec(s.notificationsDB, "ALTER TABLE order_progress DROP CONSTRAINT "+name) }
}

// failOrder makes each attempt to record an event of this order fail, until it is mended.
func (s *system) failOrder(e orderEvent) (mend func()) {
	s.Helper()
	return s.refuse("order_id <> '" + e.order.String() + "'")
}

// wantOneEmailEach wants exactly one e-mail for each event, and no other e-mails.
func (s *system) wantOneEmailEach(events ...orderEvent) {
	s.Helper()
	emails := s.mail.Copies()
	if len(emails) != len(events) {
		s.Errorf("there are e-mails of %d events, want of %d", len(emails), len(events))
	}
	for _, e := range events {
		if n := emails[e.messageID()]; n != 1 {
			s.Errorf("%d e-mails of event %s, want 1", n, e.id)
		}
	}
}

// wantEffects wants the effects of n messages to be recorded, and n e-mails to be marked as sent. A
// message is acknowledged before its e-mail is sent and marked, so it waits for the marks.
func (s *system) wantEffects(n int) {
	s.Helper()
	s.wantCount(s.notificationsDB, n, recordedCount)
	s.awaitCount(s.notificationsDB, n, sentCount)
}

// wantNothingFailed wants no dead letter and no failed e-mail.
func (s *system) wantNothingFailed(running *service) {
	s.Helper()
	s.takeMessages(deadLetterQueue, 0)
	s.wantCount(s.notificationsDB, 0, failedCount)
	running.awaitMetric(0, "consumer_messages_total", "outcome", "dead_lettered")
}

// wantVersionsInOrder wants the events of each order to have come in the order of their versions,
// and returns how many different events there are. It ignores repeats.
func (s *system) wantVersionsInOrder(copies []amqp.Delivery) (events int) {
	s.Helper()
	versions, seen := map[string]int{}, map[string]bool{}
	for _, d := range copies {
		if seen[d.MessageId] {
			continue
		}
		seen[d.MessageId] = true
		var event struct {
			OrderID string `json:"order_id"`
			Version int    `json:"order_version"`
		}
		must(s.T, json.Unmarshal(d.Body, &event))
		if event.Version != versions[event.OrderID]+1 {
			s.Errorf("version %d of %s came after version %d", event.Version, event.OrderID, versions[event.OrderID])
		}
		versions[event.OrderID] = event.Version
	}
	return len(seen)
}
