package rabbitmq

import (
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
)

// Publisher publishes on one channel, from one goroutine at a time.
type Publisher struct {
	session *Session
	channel *amqp.Channel
	returns chan amqp.Return
	closed  chan *amqp.Error
	reason  error // why the channel closed
	window  int
	unknown bool // a message of it is Unknown, so it sends nothing more
}

var (
	errNoRoute = fmt.Errorf("%w: no queue is bound for it", publish.ErrReturned)
	errRefused = errors.New("a queue refused it")
)

// NewPublisher opens a channel for batches of at most window messages.
func (s *Session) NewPublisher(window int) (*Publisher, error) {
	defer s.closeAfter(answerTimeout)()
	channel, err := s.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("opening a channel: %w", err)
	}
	if err := channel.Confirm(false); err != nil {
		return nil, fmt.Errorf("asking for confirms: %w", err)
	}
	return &Publisher{
		session: s,
		channel: channel,
		// The listener is registered once, before any publish. It has room for a whole batch: the
		// client library drops returns if the listener's channel is full.
		returns: channel.NotifyReturn(make(chan amqp.Return, window)),
		closed:  channel.NotifyClose(make(chan *amqp.Error, 1)),
		reason:  amqp.ErrClosed,
		window:  window,
	}, nil
}

// Publish sends a batch and waits for all its confirms. Timeout is for the whole batch. The results
// are in the order of the messages.
//
// After an Unknown it sends nothing more, and every outcome is Unknown: a late confirm might be
// counted for another message.
func (p *Publisher) Publish(messages []Message, timeout time.Duration) []publish.Result {
	if len(messages) > p.window {
		panic(fmt.Sprintf("rabbitmq: a batch of %d on a publisher with a window of %d", len(messages), p.window))
	}
	results := make([]publish.Result, len(messages))
	if p.unknown {
		for i := range results {
			results[i] = publish.Result{Outcome: publish.Unknown, Err: publish.ErrNotSent}
		}
		return results
	}
	confirmations := p.send(messages, results)

	late := make(chan struct{})
	defer time.AfterFunc(timeout, func() { close(late) }).Stop()
	for i, confirmation := range confirmations {
		if confirmation != nil {
			results[i] = p.await(confirmation, late)
		}
	}
	p.noteReturned(messages, results)
	p.unknown = slices.ContainsFunc(results, func(r publish.Result) bool { return r.Outcome == publish.Unknown })
	return results
}

// await waits for a confirm until it is late. A confirm that has arrived by then counts: if one
// message of a batch gets no confirm, the others must not become Unknown.
func (p *Publisher) await(confirmation *amqp.DeferredConfirmation, late <-chan struct{}) publish.Result {
	select {
	case <-confirmation.Done():
	case <-late:
		if !isDone(confirmation) {
			return publish.Result{Outcome: publish.Unknown, Err: publish.ErrTimeout}
		}
	}
	return p.result(confirmation)
}

func isDone(confirmation *amqp.DeferredConfirmation) bool {
	select {
	case <-confirmation.Done():
		return true
	default:
		return false
	}
}

// send writes the batch in few pieces, and does not wait for confirms. A message that was not sent
// has a nil confirmation, and its result says why.
func (p *Publisher) send(messages []Message, results []publish.Result) []*amqp.DeferredConfirmation {
	defer p.session.socket.hold()()
	confirmations := make([]*amqp.DeferredConfirmation, len(messages))
	broken := false
	for i, m := range messages {
		if err := m.check(); err != nil {
			results[i] = publish.Result{Outcome: publish.Invalid, Err: err}
			continue
		}
		if broken {
			results[i] = publish.Result{Outcome: publish.Unknown, Err: publish.ErrNotSent}
			continue
		}
		confirmation, err := p.channel.PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, true, false, m.publishing())
		if err != nil {
			results[i] = publish.Result{Outcome: publish.Unknown, Err: err}
			broken = true
			continue
		}
		confirmations[i] = confirmation
	}
	return confirmations
}

// result distinguishes a refusal from a closed channel. The client library reports both as "not
// acknowledged".
func (p *Publisher) result(c *amqp.DeferredConfirmation) publish.Result {
	switch {
	case c.Acked():
		return publish.Result{Outcome: publish.Confirmed}
	case p.channel.IsClosed():
		return publish.Result{Outcome: publish.Unknown, Err: p.closeReason()}
	default:
		return publish.Result{Outcome: publish.Refused, Err: errRefused}
	}
}

// closeReason stores the reason: the client library sends it once, and each message of the batch
// needs it.
func (p *Publisher) closeReason() error {
	select {
	case reason, ok := <-p.closed:
		if ok && reason != nil {
			p.reason = p.markMessageFault(reason)
		}
	default:
	}
	return p.reason
}

// markMessageFault adds publish.ErrSessionClosed to the reason if a message is the cause. The
// broker closes only the channel if it does not accept a message (406), or if this user may not
// publish it (403). No message is the cause of a missing exchange (404), a broker that shuts down
// (320), or a cut, which has no reason from the broker.
func (p *Publisher) markMessageFault(reason *amqp.Error) error {
	refused := reason.Code == amqp.PreconditionFailed || reason.Code == amqp.AccessRefused
	if reason.Server && refused && !p.session.conn.IsClosed() {
		return fmt.Errorf("%w: %w", publish.ErrSessionClosed, reason)
	}
	return reason
}

// Close closes the channel.
func (p *Publisher) Close() {
	defer p.session.closeAfter(answerTimeout)()
	_ = p.channel.Close()
}

// noteReturned corrects the results of messages that were confirmed but that no queue got. The
// broker sends the return before the confirm, so all returns of the batch have arrived by now.
func (p *Publisher) noteReturned(messages []Message, results []publish.Result) {
	returned := map[string]bool{}
	for {
		select {
		case r, ok := <-p.returns:
			if ok {
				returned[r.MessageId] = true
				continue
			}
		default:
		}
		break
	}
	for i, m := range messages {
		if returned[m.ID] && results[i].Outcome == publish.Confirmed {
			results[i] = publish.Result{Outcome: publish.Returned, Err: errNoRoute}
		}
	}
}
