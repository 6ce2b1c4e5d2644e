package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"example.com/transactional-outbox/outbox/publish"
)

// Publisher publishes messages and hands the answers back as they come. Several goroutines may use
// it.
//
// The messages of one channel of AMQP stay in order. The publisher goes on with another channel
// after a Refused, because on the old one RabbitMQ 3.10 keeps refusing even when the queue takes
// messages again. It also does so when more messages than its window have no answer.
type Publisher struct {
	session  *Session
	window   int
	lasts    context.Context //nolint:containedctx // until Close
	end      context.CancelFunc
	channels sync.WaitGroup // that are not closed
	// answering is who waits for answers.
	answering sync.WaitGroup

	writing sync.Mutex // only who holds it writes, and uses the following
	current *confirmChannel
	opening chan opened // not nil while a channel is being opened
}

type opened struct {
	channel *confirmChannel
	err     error
}

// NewPublisher opens a channel. Usually at most window messages have no answer yet.
func (s *Session) NewPublisher(window int) (*Publisher, error) {
	defer s.closeAfter(answerTimeout)()
	p := &Publisher{session: s, window: window}
	p.lasts, p.end = context.WithCancel(context.Background())
	p.opening = p.open(window)
	first := <-p.opening
	p.current, p.opening = first.channel, nil
	return p, first.err
}

// Publish sends messages, and does not wait for their answers. It calls answer once for each, as
// [publish.Publisher] says.
func (p *Publisher) Publish(ctx context.Context, messages []Message, answer func(i int, r publish.Result)) {
	p.writing.Lock()
	defer p.writing.Unlock()
	channel, err := p.channelFor(ctx, len(messages))
	if err == nil {
		channel.write(ctx, messages, answer)
		return
	}
	for i := range messages {
		answer(i, notSent(err))
	}
}

func notSent(reason error) publish.Result {
	return publish.Result{Outcome: publish.NotSent, Err: fmt.Errorf("%w: %w", publish.ErrNotSent, reason)}
}

// channelFor takes the places of n messages on the current channel, or on another one.
func (p *Publisher) channelFor(ctx context.Context, n int) (*confirmChannel, error) {
	for p.lasts.Err() == nil {
		if p.current.take(n) {
			return p.current, nil
		}
		if p.opening == nil {
			p.opening = p.open(max(p.window, n))
		}
		select {
		case o := <-p.opening:
			p.opening = nil
			if o.err != nil {
				return nil, o.err
			}
			p.current = o.channel
		case <-ctx.Done(): // a silent broker may open it later, for the next call
			return nil, context.Cause(ctx)
		}
	}
	return nil, errors.New("the publisher is closed")
}

// open opens a channel in a goroutine, because the client library waits for the broker without a
// limit.
func (p *Publisher) open(room int) chan opened {
	done := make(chan opened, 1)
	p.channels.Add(1)
	go func() {
		c, err := openConfirmChannel(p, room)
		if err != nil {
			p.channels.Done()
		} else {
			context.AfterFunc(c.lasts, func() {
				defer p.channels.Done()
				_ = c.Close()
			})
		}
		done <- opened{c, err}
	}()
	return done
}

// Close closes the channels. What has no answer yet is Unknown. If the broker does not answer,
// Close ends the session.
func (p *Publisher) Close() {
	defer p.session.closeAfter(closeTimeout)()
	p.end()
	p.writing.Lock() // nothing more is opened
	defer p.writing.Unlock()
	p.channels.Wait()
	p.answering.Wait() // now each message has its answer
}
