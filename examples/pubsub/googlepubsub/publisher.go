package googlepubsub

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"example.com/transactional-outbox/outbox/publish"
)

// maxInFlight is how many requests of a publisher go out at once. Google allows about 100 on a
// connection, and gRPC keeps further ones waiting.
const maxInFlight = 100

// publisher publishes batches.
type publisher struct {
	session *Session
	places  chan struct{}   // of the requests that are in flight
	open    context.Context // ends when the publisher or the session is closed
	end     context.CancelCauseFunc
	mu      sync.Mutex
	lost    error // the first Unknown, after which nothing more is sent
}

// Publish implements [publish.Publisher]. It does not wait. Each group is on its own.
func (p *publisher) Publish(ctx context.Context, messages []publish.Message, answer func(i int, r publish.Result)) {
	chains := p.split(messages, answer)
	go func() {
		ctx, cancel := context.WithCancelCause(ctx)
		defer context.AfterFunc(p.open, func() { cancel(context.Cause(p.open)) })() //nolint:contextcheck // p.open is the publisher's
		var all sync.WaitGroup
		for _, c := range p.withListeners(ctx, chains) {
			all.Go(func() { p.publishChain(ctx, c) })
		}
		all.Wait()
		cancel(nil)
	}()
}

// Close ends the requests. The connection belongs to the session.
func (p *publisher) Close() { p.end(errClosed) }

// withListeners returns the chains whose topic has a subscription. It answers for the others.
func (p *publisher) withListeners(ctx context.Context, chains []*chain) (listened []*chain) {
	looks := map[string]publish.Result{} // one for each topic
	for _, c := range chains {
		topic := c.requests[0].Topic
		look, done := looks[topic]
		if !done {
			look = p.look(ctx, topic)
			looks[topic] = look
		}
		if look.Outcome == publish.Confirmed {
			listened = append(listened, c)
			continue
		}
		for _, r := range c.requests {
			r.answerAll(look)
		}
	}
	return listened
}

// look returns the outcome that messages of a topic have if they are not published. It is
// Confirmed if the topic has a subscription.
func (p *publisher) look(ctx context.Context, topic string) publish.Result {
	exist, err := p.session.subscriptions.exist(ctx, topic)
	if err == nil && !exist {
		return publish.Result{Outcome: publish.Returned, Err: fmt.Errorf("%s has no subscription", topic)}
	}
	if r := result(err); r.Outcome != publish.Unknown {
		return r
	}
	return notSent(err)
}

// publishChain sends the requests of a group. After a request that is not confirmed, it sends no
// later one, which could overtake it. The later ones get the same outcome, or are NotSent.
func (p *publisher) publishChain(ctx context.Context, c *chain) {
	last := publish.Result{Outcome: publish.Confirmed}
	for _, r := range c.requests {
		switch last.Outcome {
		case publish.Confirmed:
			last = p.send(ctx, r)
		case publish.Unknown:
			last = notSent(last.Err)
		default: // the later ones get the same outcome
		}
		r.answerAll(last)
	}
}

// send publishes one request. Before that it waits for a place, until ctx ends.
func (p *publisher) send(ctx context.Context, r *request) publish.Result {
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-ctx.Done():
	}
	if reason := cmp.Or(context.Cause(ctx), context.Cause(p.open), p.note(nil)); reason != nil { //nolint:contextcheck // the same
		return notSent(reason)
	}
	response, err := p.session.client.Publish(p.open, r.PublishRequest) //nolint:contextcheck // what is sent waits for its answer
	if err == nil && len(response.MessageIds) != len(r.Messages) {
		err = fmt.Errorf("%d messages, but %d ids in the answer", len(r.Messages), len(response.MessageIds))
	}
	answer := result(err)
	if answer.Outcome == publish.Unknown {
		_ = p.note(answer.Err)
	}
	return answer
}

// note keeps the first error, and returns it.
func (p *publisher) note(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = cmp.Or(p.lost, err)
	return p.lost
}

func notSent(reason error) publish.Result {
	return publish.Result{Outcome: publish.NotSent, Err: fmt.Errorf("%w: %w", publish.ErrNotSent, reason)}
}
