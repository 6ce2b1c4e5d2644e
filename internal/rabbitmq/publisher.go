package rabbitmq

import (
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Outcome is what is known of a message that was to be published.
type Outcome int

const (
	// Unknown means: the broker may have the message or not. The channel or connection
	// closed, or the broker did not answer in time.
	Unknown Outcome = iota
	// Confirmed means: the broker has the message, in at least one queue, on disk.
	Confirmed
	// Returned means: no queue is bound for it. The broker took and dropped it.
	Returned
	// Refused means: a queue did not take it (it is full, for one).
	Refused
	// Invalid means: it was never sent, because no broker could take it.
	Invalid
)

// Result is the outcome for one message, and the reason unless it is Confirmed.
type Result struct {
	Outcome Outcome
	Err     error
}

// Publisher publishes on one channel, from one goroutine at a time.
type Publisher struct {
	session *Session
	channel *amqp.Channel
	returns chan amqp.Return
	closed  chan *amqp.Error
	reason  error // why the channel closed, once it has
	window  int
}

var (
	// ErrChannelClosed is an Unknown for which the broker closed the channel, and the
	// channel alone: one of the batch's messages is to blame.
	ErrChannelClosed = errors.New("the broker closed the channel over it")

	errNoRoute = errors.New("no queue is bound for it")
	errRefused = errors.New("a queue refused it")
	errTimeout = errors.New("the broker did not confirm in time")
	errNotSent = errors.New("not sent: an earlier message of its batch could not be")
)

// NewPublisher opens a channel for batches of at most window messages.
func (s *Session) NewPublisher(window int) (*Publisher, error) {
	defer s.breakAfter(answerTimeout)()
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
		// Registered once, before any publish, and wide enough for a whole batch:
		// the client library drops what a full listener does not take.
		returns: channel.NotifyReturn(make(chan amqp.Return, window)),
		closed:  channel.NotifyClose(make(chan *amqp.Error, 1)),
		reason:  amqp.ErrClosed,
		window:  window,
	}, nil
}

// Publish sends a batch and waits for the confirms of all of it, at most timeout
// for the whole batch. The results stand in the order of the messages.
//
// After an Unknown the channel must not be used again: a late confirm would be
// taken for that of another message.
func (p *Publisher) Publish(messages []Message, timeout time.Duration) []Result {
	if len(messages) > p.window {
		panic(fmt.Sprintf("rabbitmq: a batch of %d on a publisher with a window of %d", len(messages), p.window))
	}
	results := make([]Result, len(messages))
	confirmations := p.send(messages, results)

	late := make(chan struct{})
	defer time.AfterFunc(timeout, func() { close(late) }).Stop()
	for i, confirmation := range confirmations {
		if confirmation != nil {
			results[i] = p.await(confirmation, late)
		}
	}
	p.noteReturned(messages, results)
	return results
}

// await waits for a confirm until it is late. A confirm that is there by then counts: one
// message of a batch that gets none must not make the others Unknown.
func (p *Publisher) await(confirmation *amqp.DeferredConfirmation, late <-chan struct{}) Result {
	select {
	case <-confirmation.Done():
	case <-late:
		if !isDone(confirmation) {
			return Result{Unknown, errTimeout}
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

// send writes the batch without waiting, in few pieces; a nil confirmation stands
// where nothing was sent, and the result then says why.
func (p *Publisher) send(messages []Message, results []Result) []*amqp.DeferredConfirmation {
	defer p.session.socket.hold()()
	confirmations := make([]*amqp.DeferredConfirmation, len(messages))
	broken := false
	for i, m := range messages {
		if err := m.check(); err != nil {
			results[i] = Result{Invalid, err}
			continue
		}
		if broken {
			results[i] = Result{Unknown, errNotSent}
			continue
		}
		confirmation, err := p.channel.PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, true, false, m.publishing())
		if err != nil {
			results[i] = Result{Unknown, err}
			broken = true
			continue
		}
		confirmations[i] = confirmation
	}
	return confirmations
}

// result tells a refusal from a closed channel: the client library answers both
// with "not acknowledged".
func (p *Publisher) result(c *amqp.DeferredConfirmation) Result {
	switch {
	case c.Acked():
		return Result{Outcome: Confirmed}
	case p.channel.IsClosed():
		return Result{Unknown, p.closeReason()}
	default:
		return Result{Refused, errRefused}
	}
}

// closeReason remembers: the client library tells the reason once, and each message
// of the batch asks.
func (p *Publisher) closeReason() error {
	select {
	case reason, ok := <-p.closed:
		if ok && reason != nil {
			p.reason = p.overAMessage(reason)
		}
	default:
	}
	return p.reason
}

// overAMessage marks the reason when it is that of a message. The broker closes the
// channel, and only that, over a message that it will not have (406) or that this
// user may not publish (403). A missing exchange (404), a broker that is going down
// (320) and a cut, which no broker sent, are no message's fault.
func (p *Publisher) overAMessage(reason *amqp.Error) error {
	refused := reason.Code == amqp.PreconditionFailed || reason.Code == amqp.AccessRefused
	if reason.Server && refused && !p.session.conn.IsClosed() {
		return fmt.Errorf("%w: %w", ErrChannelClosed, reason)
	}
	return reason
}

// Close closes the channel.
func (p *Publisher) Close() {
	defer p.session.breakAfter(answerTimeout)()
	_ = p.channel.Close()
}

// noteReturned corrects what was confirmed but went nowhere. The broker sends the
// return before the confirm, so all of a batch's returns are here by now.
func (p *Publisher) noteReturned(messages []Message, results []Result) {
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
		if returned[m.ID] && results[i].Outcome == Confirmed {
			results[i] = Result{Returned, errNoRoute}
		}
	}
}
