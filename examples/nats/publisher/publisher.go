package publisher

import (
	"cmp"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/outbox/publish"
)

// Publisher publishes on a session, from one goroutine at a time.
type Publisher struct {
	session *Session
	js      jetstream.JetStream
	unknown bool // a message of it is Unknown, so it sends nothing more
}

// once turns off the repeats of the client library. If no stream answers, it would send a message
// again after a pause, perhaps after later messages of the same group.
var once = jetstream.WithRetryAttempts(0)

// Publish sends a batch and waits for all answers of the stream. It implements [publish.Publisher].
func (p *Publisher) Publish(messages []publish.Message, timeout time.Duration) []publish.Result {
	results := make([]publish.Result, len(messages))
	if p.unknown {
		return fill(results, publish.Result{Outcome: publish.Unknown, Err: publish.ErrNotSent})
	}
	late := make(chan struct{})
	defer time.AfterFunc(timeout, func() { close(late) }).Stop()
	for i, answer := range p.send(messages, results) {
		if answer != nil {
			results[i] = p.await(answer, late)
		}
	}
	p.unknown = slices.ContainsFunc(results, func(r publish.Result) bool { return r.Outcome == publish.Unknown })
	return results
}

func fill(results []publish.Result, r publish.Result) []publish.Result {
	for i := range results {
		results[i] = r
	}
	return results
}

// send sends the batch and does not wait. The answer of a message that was not sent is nil, and its
// result says why. The server handles the messages of one connection in their order.
func (p *Publisher) send(messages []publish.Message, results []publish.Result) []jetstream.PubAckFuture {
	answers := make([]jetstream.PubAckFuture, len(messages))
	broken := false
	for i, m := range messages {
		m.Destination = cmp.Or(m.Destination, p.session.subject)
		msg, err := convert(m, p.session.conn.MaxPayload())
		switch {
		case err != nil:
			results[i] = publish.Result{Outcome: publish.Invalid, Err: err}
		case broken:
			results[i] = publish.Result{Outcome: publish.Unknown, Err: publish.ErrNotSent}
		default:
			if answers[i], err = p.js.PublishMsgAsync(msg, once); err != nil {
				results[i] = publish.Result{Outcome: publish.Unknown, Err: err}
				broken = true
			}
		}
	}
	return answers
}

// await waits for an answer, until the timeout or the end of the session. An answer that is already
// there still counts.
func (p *Publisher) await(answer jetstream.PubAckFuture, late <-chan struct{}) publish.Result {
	reason := publish.ErrTimeout
	select {
	case <-answer.Ok():
		return publish.Result{Outcome: publish.Confirmed}
	case err := <-answer.Err():
		return result(err)
	case <-late:
	case <-p.session.ended:
		reason = p.session.reason()
	}
	select {
	case <-answer.Ok():
		return publish.Result{Outcome: publish.Confirmed}
	case err := <-answer.Err():
		return result(err)
	default:
		return publish.Result{Outcome: publish.Unknown, Err: reason}
	}
}

// Close ends the subscription for the answers.
func (p *Publisher) Close() { p.js.CleanupPublisher() }

var _ publish.Publisher = (*Publisher)(nil)
