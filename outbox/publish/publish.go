// Package publish is the contract between a relay and a publisher. It fits every broker. The relay
// hands over a [Message], and the publisher answers with an [Outcome]. Package rabbitmq has a
// publisher for RabbitMQ. [Func] makes one of a function:
//
//	to := publish.Func(func(ctx context.Context, m publish.Message) error {
//		return webhook.Post(ctx, m.Topic, m.ID, m.Body)
//	}, publish.FuncConfig{})
//	relay, err := outbox.NewRelay(pool, to, outbox.RelayConfig{})
//
// A [Destination] of your own must pass the tests of package publishtest.
//
// # The contract
//
// A publisher may report Confirmed only if the server has stored the message: it is still there
// after a SIGKILL and a restart of the server. If a message was sent, and its answer can no longer
// come, the outcome is Unknown.
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
	"strings"
	"sync/atomic"
	"time"
)

// Session is a connection to a destination. Each worker of a relay has its own. A session does not
// reconnect: when its connection is lost, the context that KeepConnected has given ends.
type Session interface {
	// NewPublisher returns a publisher. It returns soon, also if the server is silent. Usually at most
	// window messages of the publisher have no answer yet.
	NewPublisher(window int) (Publisher, error)
	// Blocked reports that the destination asks its publishers to wait. It returns at once.
	Blocked() bool
}

// OneByOne is a [Session] that answers each message on its own, as a mail server does with a
// connection for each e-mail, and within a bound of its own, which begins when it begins that
// message. So the relay waits, however long a message waits for its turn. For any other session, it
// pauses what has no answer for a second, and may go on with another session: RabbitMQ stops
// reading a whole connection when one queue does not take what was sent.
type OneByOne interface {
	Session
	OneByOne()
}

// Publisher sends messages and hands each answer back as it comes.
type Publisher interface {
	// Publish sends messages, in their order. It need not wait for their answers. When the outcome
	// of messages[i] is known, it calls answer(i, result), once for each message: from any
	// goroutine, before or after Publish returns, and perhaps for several messages at the same time.
	// The answer does not block. The answer to one message does not wait for that to another one. An
	// Unknown with [ErrOverdue] is not the last one: the next one comes when the sending has ended.
	//
	// A message that is not sent when ctx ends is NotSent. Publish returns soon after that, or, if it
	// waits for answers itself, after Close. A message that was sent waits for its answer as long as
	// the session lasts.
	//
	// The server stores the messages of a group in the order in which Publish got them, as long as
	// each is Confirmed. A message that another call publishes before the answer may overtake it.
	//
	// When the session is lost, or the server has closed the publisher, each message without an
	// answer is Unknown if it was sent, and NotSent if not. All later ones are NotSent. The caller
	// then opens another publisher.
	Publish(ctx context.Context, messages []Message, answer func(i int, r Result))
	// Close ends the publisher, also while Publish runs. What has no answer yet is Unknown. It may be
	// called twice. It does not close the session. But if the server is silent, it may end the
	// session, so that it returns.
	Close()
}

// All publishes messages and waits for all answers. A message without an answer after the timeout
// is Unknown with [ErrTimeout]. M is [Message], unless the publisher has a type of its own.
func All[M any](p interface {
	Publish(ctx context.Context, messages []M, answer func(i int, r Result))
}, messages []M, timeout time.Duration,
) []Result {
	type answer struct {
		i int
		r Result
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	results := make([]Result, len(messages))
	for i := range results {
		results[i] = Result{Outcome: Unknown, Err: ErrTimeout}
	}
	answers := make(chan answer, len(messages)) // with room for all, so that a late answer blocks nobody
	isAnswered := make([]atomic.Bool, len(messages))
	go p.Publish(ctx, messages, func(i int, r Result) {
		if !isAnswered[i].Swap(true) { // otherwise the one before was ErrOverdue
			answers <- answer{i, r}
		}
	})
	for range messages {
		select {
		case a := <-answers:
			results[a.i] = a.r
		case <-ctx.Done():
			return results
		}
	}
	return results
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

// Reserved says why no event may have a header of this name. It is "" if one may.
func Reserved(header string) (why string) {
	switch header {
	case "CC", "BCC":
		return "RabbitMQ would send it to more routing keys"
	case "x-death", "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason",
		"x-last-death-exchange", "x-last-death-queue", "x-last-death-reason", "x-delivery-count", "x-acquired-count":
		return "RabbitMQ adds it to what it delivers, and a retry removes it"
	case "retry-count", "first-failed-at", "failure-code", "failure-reason", "failed-at", "original-exchange", "original-cc", "original-bcc", "x-unreadable":
		return "the consumer of package rabbitmq adds it to its copies"
	}
	if strings.EqualFold(header, "traceparent") { // HTTP ignores the case
		return "the trace has a field of its own, Traceparent"
	}
	return ""
}

// Outcome is what became of a message.
type Outcome int

const (
	// Unknown means: it was sent, and no answer can come any more, because the session was lost or
	// the server has closed the publisher. The server may or may not have the message.
	Unknown Outcome = iota
	// Confirmed means: the server has stored the message, and at least one consumer can get it.
	Confirmed
	// Returned means: no consumer could get the message, and the server has not stored it.
	Returned
	// Refused means: the server answered that it does not accept the message, for example because
	// a queue is full. Another queue may have stored a copy.
	Refused
	// Invalid means: the message was not sent, because no server of this kind could take it. The
	// others are sent.
	Invalid
	// NotSent means: the message was not sent. It may be sent again at once, with another publisher.
	// With [ErrBusy] its topic pauses: too many of its messages wait, or it is unreachable.
	NotSent
)

// Result is the outcome for one message, and the reason unless it is Confirmed.
type Result struct {
	Outcome Outcome
	Err     error
}

var (
	// ErrClosed is the error of an Unknown or a NotSent: the server closed the publisher because of
	// a message, such as a channel of RabbitMQ: this message or another one without an answer.
	ErrClosed = errors.New("the server closed the publisher because of this message or another one")
	// ErrNotSent is the error of a NotSent.
	ErrNotSent = errors.New("the message was not sent")
	// ErrBusy is the error of a NotSent: too many messages of its topic wait for their answers.
	ErrBusy = fmt.Errorf("%w: too many of its topic wait for an answer", ErrNotSent)
	// ErrTimeout says that no answer came in time.
	ErrTimeout = errors.New("no answer in time")
	// ErrOverdue is the error of an Unknown: the message is still being sent.
	ErrOverdue = fmt.Errorf("%w, and the call has not returned", ErrTimeout)

	// ErrReturned is the error of a Returned.
	ErrReturned = errors.New("no consumer can get it")

	// ErrInvalid is wrapped by each of the following.
	ErrInvalid = errors.New("no destination could take it")
	// ErrTooLarge is a body that is too large.
	ErrTooLarge = fmt.Errorf("%w: the body is too large", ErrInvalid)
	// ErrBadTopic is a topic that is too long, or has characters that the broker does not allow.
	ErrBadTopic = fmt.Errorf("%w: the topic cannot be sent", ErrInvalid)
	// ErrBadHeaders are headers or properties that the broker's protocol cannot carry, or too many.
	ErrBadHeaders = fmt.Errorf("%w: the headers cannot be sent", ErrInvalid)
)
