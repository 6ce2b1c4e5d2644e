// Package publish is the contract between a relay and a publisher. It fits every broker. The relay
// hands over a [Message], and the publisher answers with an [Outcome]. Package rabbitmq has a
// publisher for RabbitMQ. [Func] makes one of a function:
//
//	relay, err := outbox.NewRelay(pool, publish.Func(func(ctx context.Context, m publish.Message) error {
//		return webhook.Post(ctx, m.Topic, m.ID, m.Body)
//	}), outbox.RelayConfig{})
//
// A publisher for another broker must pass the tests of package publishtest.
//
// # The contract
//
// A publisher may report Confirmed only if the server has stored the message: it is still there
// after a SIGKILL and a restart of the server. If the publisher does not know the outcome, it
// reports Unknown. If the connection breaks, or the server is silent or killed, each message that
// the publisher has sent is Confirmed or Unknown.
//
// The relay may publish a message again after any outcome, with another publisher and the same id.
// So the server may store it twice. Delivery is at least once. Consumers use the id to find the
// messages that they have already processed.
//
// A broker must deliver each field of a [Message] except Destination and Group. It may cut the
// timestamp to seconds, and may deliver a number in a header as text.
package publish

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Session is a connection to a broker. Several publishers use it at the same time, each one from
// its own goroutine. As long as the connection is open, no outcome of one publisher stops the
// others. A session does not reconnect: after the end of its connection, the caller opens another
// session.
type Session interface {
	// NewPublisher returns a publisher for batches of at most window messages.
	NewPublisher(window int) (Publisher, error)
	// Unblocked waits while the broker asks its publishers to wait. It returns nil when they may
	// publish. It returns an error if ctx or the session ends while it waits, and may return one
	// if ctx or the session has ended before.
	Unblocked(ctx context.Context) error
}

// Publisher publishes batches, from one goroutine at a time.
type Publisher interface {
	// Publish sends a batch and waits for all its outcomes, which it returns in the order of the
	// messages. The timeout is for the whole batch. Publish always returns, but may take some
	// seconds longer if the broker reads nothing.
	//
	// If all messages of a group are Confirmed, the server stores them in the order of the batch,
	// and after those of earlier batches. Otherwise it may store a message although it has not
	// stored an earlier one of the group.
	//
	// After a batch with an Unknown, the publisher sends nothing more. All outcomes of later
	// batches are Unknown with [ErrNotSent]. Otherwise it could take a late answer for the answer
	// to another message. The caller opens another session.
	//
	// After a Refused the caller opens another publisher, because RabbitMQ 3.10 keeps refusing on
	// the old one.
	Publish(messages []Message, timeout time.Duration) []Result
	// Close frees what the publisher holds. It may be called twice, and after an Unknown. It does
	// not close the session. But if the server is silent, it may end the session, so that it
	// returns.
	Close()
}

// Message is what a publisher sends.
type Message struct {
	ID    string // the same at each publish of the message
	Topic string // the type of the message, such as order.created; consumers select by it
	Group string // messages of one group stay in order, for example those of one order
	// Destination is an exchange of RabbitMQ, a topic of Pub/Sub, the first part of a subject of
	// NATS. The empty string is the publisher's own.
	Destination string
	ContentType string         // of the body
	AppID       string         // the service that publishes it
	Timestamp   time.Time      // when the event was created
	Headers     map[string]any // strings and int64
	Body        []byte
}

// Outcome is the result of publishing a message.
type Outcome int

const (
	// Unknown means: the broker may or may not have the message. The connection closed, the broker
	// did not answer in time, or the publisher did not send the message.
	Unknown Outcome = iota
	// Confirmed means: the broker has stored the message, and at least one consumer can get it.
	Confirmed
	// Returned means: no consumer could get the message, and the broker has not stored it.
	Returned
	// Refused means: the broker answered that it does not accept the message, for example because
	// a queue is full. Another queue may have stored a copy.
	Refused
	// Invalid means: the message was not sent, because no broker of this kind could take it. The
	// others of its batch are sent.
	Invalid
)

// Result is the outcome for one message, and the reason unless it is Confirmed.
type Result struct {
	Outcome Outcome
	Err     error
}

var (
	// ErrSessionClosed is the error of an Unknown: the broker closed the session, or a part of it such
	// as a channel of RabbitMQ, because of a message of the batch: this one or another one.
	ErrSessionClosed = errors.New("the session was closed because of this message or another one of its batch")
	// ErrNotSent is the error of an Unknown: the message was not sent, because the outcome of an
	// earlier one is Unknown.
	ErrNotSent = errors.New("not sent: the outcome of an earlier message is unknown")
	// ErrTimeout is the error of an Unknown: no answer came in time.
	ErrTimeout = errors.New("the broker did not confirm in time")

	// ErrReturned is the error of a Returned.
	ErrReturned = errors.New("no consumer can get it")

	// ErrInvalid is wrapped by each of the following.
	ErrInvalid = errors.New("no broker could take it")
	// ErrTooLarge is a body that is too large.
	ErrTooLarge = fmt.Errorf("%w: the body is too large", ErrInvalid)
	// ErrBadTopic is a topic that is too long, or has characters that the broker does not allow.
	ErrBadTopic = fmt.Errorf("%w: the topic cannot be sent", ErrInvalid)
	// ErrBadHeaders are headers or properties that the broker's protocol cannot carry, or too many.
	ErrBadHeaders = fmt.Errorf("%w: the headers cannot be sent", ErrInvalid)
)
