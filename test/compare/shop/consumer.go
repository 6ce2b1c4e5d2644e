package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/smtp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Prefetch is how many messages a consumer holds.
const Prefetch = 16

// Consume calls handle for each message, one after the other. When the connection is lost, it
// connects again.
func (s *Shop) Consume(ctx context.Context, autoAck bool, handle func(context.Context, *amqp.Channel, amqp.Delivery)) error {
	Every(ctx, 200*time.Millisecond, func(ctx context.Context) error {
		conn, channel, err := OpenChannel(s.AMQPURL)
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer func() { stop(); _ = conn.Close() }()
		deliveries, err := Subscribe(ctx, channel, autoAck)
		if err != nil {
			return err
		}
		for d := range deliveries {
			handle(ctx, channel, d)
		}
		return errors.New("the connection to the broker is lost")
	})
	return nil
}

// Subscribe declares the service's queues, and consumes.
func Subscribe(ctx context.Context, channel *amqp.Channel, autoAck bool) (<-chan amqp.Delivery, error) {
	quorum := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	if err := Declare(channel, deadLetters, amqp.ExchangeFanout, DeadLetters, quorum); err != nil {
		return nil, err
	}
	arguments := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-dead-letter-exchange": deadLetters}
	if err := Declare(channel, Exchange, amqp.ExchangeTopic, Queue, arguments); err != nil {
		return nil, err
	}
	if err := channel.Qos(Prefetch, 0, false); err != nil {
		return nil, err
	}
	deliveries, err := channel.Consume(Queue, "", autoAck, false, false, false, nil)
	if err == nil {
		slog.InfoContext(ctx, "taking messages")
	}
	return deliveries, err
}

// keys are the routing keys that the service subscribes to.
var keys = []string{"order.created", "order.confirmed", "order.cancelled"}

// Declare declares an exchange and a queue, and binds them.
func Declare(channel *amqp.Channel, exchange, kind, queue string, arguments amqp.Table) error {
	if err := channel.ExchangeDeclare(exchange, kind, true, false, false, false, nil); err != nil {
		return err
	}
	if _, err := channel.QueueDeclare(queue, true, false, false, false, arguments); err != nil {
		return err
	}
	for _, key := range keys {
		if err := channel.QueueBind(queue, key, exchange, false, nil); err != nil {
			return err
		}
	}
	return nil
}

// DeclareService declares the queue of another service, which gets the same messages.
func DeclareService(url, queue string) error {
	conn, channel, err := OpenChannel(url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return Declare(channel, Exchange, amqp.ExchangeTopic, queue, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
}

// Read parses a message.
func Read(d amqp.Delivery) (e Event, err error) {
	if err := json.Unmarshal(d.Body, &e); err != nil {
		return e, err
	}
	e.ID, e.Key = d.MessageId, d.RoutingKey
	_, err = uuid.Parse(e.ID)
	return e, err
}

// Record remembers the message and writes its effect. It reports false for a message that it knows.
func Record(ctx context.Context, tx pgx.Tx, e Event) (bool, error) {
	inserted, err := tx.Exec(ctx, "INSERT INTO inbox VALUES ($1) ON CONFLICT DO NOTHING", e.ID)
	if err != nil || inserted.RowsAffected() == 0 {
		return false, err
	}
	return true, WriteEffect(ctx, tx, e)
}

// WriteEffect writes the effect of an event.
func WriteEffect(ctx context.Context, db Execer, e Event) error {
	_, err := db.Exec(ctx, "INSERT INTO effects (message_id, order_id, version) VALUES ($1, $2, $3)", e.ID, e.OrderID, e.Version)
	return err
}

// workTimeout limits the work on one message in the database.
const workTimeout = 5 * time.Second

// Effect records the message and its effect in one transaction. It sends the e-mail afterwards, and
// marks it. After a failure, the next delivery of the message continues.
func (s *Shop) Effect(ctx context.Context, e Event, mail bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*workTimeout)
	defer cancel()
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		_, err := Record(ctx, tx, e)
		return err
	})
	if err != nil || !mail {
		return err
	}
	var mailed bool
	if err := s.DB.QueryRow(ctx, "SELECT bool_or(mailed) FROM effects WHERE message_id = $1", e.ID).Scan(&mailed); err != nil || mailed {
		return err
	}
	if err := s.SendMail(e); err != nil {
		return err
	}
	_, err = s.DB.Exec(ctx, "UPDATE effects SET mailed = true WHERE message_id = $1", e.ID)
	return err
}

// SendMail sends the e-mail about an event, and waits for the answer. The Message-ID is made from
// the message id.
func (s *Shop) SendMail(e Event) error {
	content := fmt.Appendf(nil, "From: shop@example.com\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\nMessage-ID: <%s@compare.example>\r\n\r\nYour order %s\r\n",
		e.Email, e.Key, time.Now().Format(time.RFC1123Z), e.ID, e.OrderID)
	answered := make(chan error, 1)
	go func() { answered <- smtp.SendMail(s.Mail, nil, "shop@example.com", []string{e.Email}, content) }()
	select {
	case err := <-answered:
		return err
	case <-time.After(workTimeout):
		return errors.New("the mail server has not answered")
	}
}
