package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Topology has the exchanges and queues that a service owns. Declaring it again changes nothing.
type Topology struct {
	Exchanges []Exchange
	Queues    []DeclaredQueue
}

// Exchange is a durable exchange of a kind: topic or fanout.
type Exchange struct{ Name, Kind string }

// DeclaredQueue is a quorum queue. It survives a restart of the broker, confirms a message when it
// is on disk, and counts deliveries.
type DeclaredQueue struct {
	Name      string
	Arguments map[string]any
	Bindings  []Binding
	Former    []Binding // Declare removes them
}

// NoDeliveryLimit is the delivery limit of a queue whose messages people read. Without the
// argument, RabbitMQ 4 sets a limit of 20, and drops messages that were read more often.
const NoDeliveryLimit = 1_000_000_000

// Binding routes the messages of an exchange that have this key. A fanout exchange ignores the key.
type Binding struct{ Exchange, Key string }

// MismatchError says that the broker has an object of that name with other properties. A new
// connection cannot solve this: somebody must delete or rename the object.
type MismatchError struct {
	Object string
	Reason string
}

// Error says what to do.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("the broker already has %s with other properties (%s): delete it, or let its owner change it", e.Object, e.Reason)
}

// Declare creates the missing objects of t, and removes its former bindings.
func (s *Session) Declare(t Topology) error {
	err := s.ask(func(channel *amqp.Channel) error {
		for _, e := range t.Exchanges {
			if err := channel.ExchangeDeclare(e.Name, e.Kind, true, false, false, false, nil); err != nil {
				return declareError("exchange "+e.Name, err)
			}
		}
		for _, q := range t.Queues {
			if err := declareQueue(channel, q); err != nil {
				return err
			}
		}
		return nil
	})
	for _, q := range t.Queues {
		for _, b := range q.Former {
			if err == nil {
				err = s.unbind(q.Name, b)
			}
		}
	}
	return err
}

// unbind removes a binding. If this user may not, it stops no message: it is a warning.
func (s *Session) unbind(queue string, b Binding) error {
	err := s.ask(func(channel *amqp.Channel) error { return channel.QueueUnbind(queue, b.Key, b.Exchange, nil) })
	if isCode(err, amqp.AccessRefused) {
		s.logger.Warn("a former topic may still be bound: let this user read it from the exchange, or remove it from FormerTopics",
			"queue", queue, "exchange", b.Exchange, "routing_key", b.Key, "error", err)
		return nil
	}
	return err
}

// redeclareInterval is how often KeepDeclared declares the topology.
const redeclareInterval = 10 * time.Second

// KeepDeclared declares t again and again until ctx ends, in case somebody deletes a part of it.
// The broker does not notify us of a deleted exchange or binding.
func (s *Session) KeepDeclared(ctx context.Context, t Topology) error {
	tick := time.NewTicker(redeclareInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.Declare(t); err != nil {
				return err
			}
		}
	}
}

func declareQueue(channel *amqp.Channel, q DeclaredQueue) error {
	arguments := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	maps.Copy(arguments, q.Arguments)
	if _, err := channel.QueueDeclare(q.Name, true, false, false, false, arguments); err != nil {
		return declareError("queue "+q.Name, err)
	}
	for _, b := range q.Bindings {
		if err := channel.QueueBind(q.Name, b.Key, b.Exchange, false, nil); err != nil {
			return declareError(fmt.Sprintf("binding of %s to %s by %q", q.Name, b.Exchange, b.Key), err)
		}
	}
	return nil
}

func declareError(object string, err error) error {
	var reason *amqp.Error
	switch {
	case !errors.As(err, &reason):
	case reason.Code == amqp.PreconditionFailed:
		return &MismatchError{Object: object, Reason: reason.Reason}
	case reason.Code == amqp.AccessRefused:
		return fmt.Errorf("declaring %s: %w: give this user the right to configure, or set Queue.NoDeclare, or leave Broker.Topology empty", object, err)
	}
	return fmt.Errorf("declaring %s: %w", object, err)
}

// WaitForExchange returns when the broker has an exchange that another service owns. If it must
// wait, it logs this once.
func (s *Session) WaitForExchange(ctx context.Context, name, kind string) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for logged := false; ; logged = true {
		err := s.ask(func(channel *amqp.Channel) error {
			return channel.ExchangeDeclarePassive(name, kind, true, false, false, false, nil)
		})
		if !isNotFound(err) {
			return err
		}
		if !logged {
			s.logger.WarnContext(ctx, "waiting for the exchange, which its publisher declares", "exchange", name)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// CountReady returns how many messages of a queue are ready to be delivered. It returns false if
// there is no such queue.
func (s *Session) CountReady(queue string) (n int, exists bool, err error) {
	err = s.ask(func(channel *amqp.Channel) error {
		found, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		n = found.Messages
		return err
	})
	if isNotFound(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("counting the messages of %s: %w", queue, err)
	}
	return n, true, nil
}

func isNotFound(err error) bool { return isCode(err, amqp.NotFound) }

func isCode(err error, code int) bool {
	var reason *amqp.Error
	return errors.As(err, &reason) && reason.Code == code
}

// ask asks the broker something on a channel of its own: the broker closes the channel if the
// answer is no. It ends the session if there is no answer.
func (s *Session) ask(question func(*amqp.Channel) error) error {
	defer s.closeAfter(answerTimeout)()
	channel, err := s.conn.Channel()
	if err != nil {
		return fmt.Errorf("opening a channel: %w", err)
	}
	defer func() { _ = channel.Close() }()
	return question(channel)
}
