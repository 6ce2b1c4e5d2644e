package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/outbox/publish"
)

// Publisher publishes on a session, from one goroutine at a time.
type Publisher struct {
	session *Session
	js      jetstream.JetStream
	closed  chan struct{}
	close   func()
}

// newPublisher sets no limit of messages without an answer: beyond it, the client library would
// wait.
func newPublisher(s *Session) (*Publisher, error) {
	const unlimited = 1 << 30
	js, err := jetstream.New(s.conn, jetstream.WithPublishAsyncMaxPending(unlimited))
	if err != nil {
		return nil, err
	}
	p := &Publisher{session: s, js: js, closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() {
		close(p.closed)
		js.CleanupPublisher()
	})
	return p, nil
}

// sent is a message whose answer has not come yet.
type sent struct {
	jetstream.PubAckFuture
	i      int
	answer func(i int, r publish.Result)
}

// once turns off the repeats of the client library. If no stream answers, it would send a message
// again after a pause, perhaps after later messages of the same group.
var once = jetstream.WithRetryAttempts(0)

// Publish sends a batch, and does not wait for the answers of the stream. It implements
// [publish.Publisher]. The server handles the messages of one connection in their order.
func (p *Publisher) Publish(ctx context.Context, messages []publish.Message, answer func(i int, r publish.Result)) {
	var all []sent
	for i, m := range messages {
		if future, r := p.send(ctx, m); future != nil {
			all = append(all, sent{future, i, answer})
		} else {
			answer(i, r)
		}
	}
	go p.await(all)
}

// send returns the answer that will come, or the result of a message that was not sent.
func (p *Publisher) send(ctx context.Context, m publish.Message) (jetstream.PubAckFuture, publish.Result) {
	m.Destination = cmp.Or(m.Destination, p.session.subject)
	msg, err := convert(m, p.session.conn.MaxPayload())
	if err != nil {
		return nil, publish.Result{Outcome: publish.Invalid, Err: err}
	}
	if reason := cmp.Or(context.Cause(ctx), p.over()); reason != nil {
		return nil, publish.Result{Outcome: publish.NotSent, Err: fmt.Errorf("%w: %w", publish.ErrNotSent, reason)}
	}
	future, err := p.js.PublishMsgAsync(msg, once)
	switch {
	case err == nil:
		return future, publish.Result{}
	case errors.Is(err, nats.ErrConnectionClosed):
		return nil, publish.Result{Outcome: publish.NotSent, Err: fmt.Errorf("%w: %w", publish.ErrNotSent, p.session.reason())}
	default: // a part of it may have been sent
		return nil, publish.Result{Outcome: publish.Unknown, Err: err}
	}
}

// over returns why the publisher sends nothing more.
func (p *Publisher) over() error {
	select {
	case <-p.session.ended:
		return p.session.reason()
	case <-p.closed:
		return errClosed
	default:
		return nil
	}
}

// silence is how long the oldest message of a batch may hold back the answers to the others.
const silence = 10 * time.Millisecond

// await hands the answers back, until the session or the publisher ends.
func (p *Publisher) await(all []sent) {
	ticker := time.NewTicker(silence)
	defer ticker.Stop()
	for len(all) > 0 && p.over() == nil {
		select {
		case <-all[0].Ok():
			all[0].answer(all[0].i, publish.Result{Outcome: publish.Confirmed})
			all = all[1:]
		case err := <-all[0].Err():
			all[0].answer(all[0].i, result(err))
			all = all[1:]
		case <-ticker.C:
			all = slices.DeleteFunc(all, answerIfDone)
		case <-p.session.ended:
		case <-p.closed:
		}
	}
	for _, s := range slices.DeleteFunc(all, answerIfDone) {
		s.answer(s.i, publish.Result{Outcome: publish.Unknown, Err: p.over()})
	}
}

// answerIfDone hands back an answer that has come.
func answerIfDone(s sent) bool {
	select {
	case <-s.Ok():
		s.answer(s.i, publish.Result{Outcome: publish.Confirmed})
		return true
	case err := <-s.Err():
		s.answer(s.i, result(err))
		return true
	default:
		return false
	}
}

// Close ends the subscription for the answers.
func (p *Publisher) Close() { p.close() }

var _ publish.Publisher = (*Publisher)(nil)
