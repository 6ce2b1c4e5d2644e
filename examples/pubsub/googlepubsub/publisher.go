package googlepubsub

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/outbox/publish"
)

// maxInFlight is how many requests go out at once. Google allows about 100 on a connection, and
// gRPC keeps further ones waiting.
const maxInFlight = 100

// publisher publishes batches. It has no goroutine that runs between two calls of Publish.
type publisher struct {
	session *Session
	mu      sync.Mutex
	unknown error // the first Unknown, after which nothing more is sent
}

// Publish implements [publish.Publisher].
func (p *publisher) Publish(messages []publish.Message, timeout time.Duration) []publish.Result {
	results := make([]publish.Result, len(messages))
	if p.firstUnknown() != nil {
		for i := range results {
			results[i] = p.notSent()
		}
		return results
	}
	ctx, cancel := context.WithTimeout(p.session.open, timeout)
	defer cancel()
	chains := p.split(messages, results)
	var inFlight errgroup.Group
	inFlight.SetLimit(maxInFlight)
	for _, c := range p.withListeners(ctx, chains, results) {
		inFlight.Go(func() error {
			p.publishChain(ctx, c, results)
			return nil
		})
	}
	_ = inFlight.Wait() // each chain has written its results
	return results
}

// Close does nothing: the connection belongs to the session.
func (p *publisher) Close() {}

// withListeners returns the chains whose topic has a subscription. It sets the results of the
// others.
func (p *publisher) withListeners(ctx context.Context, chains []*chain, results []publish.Result) (listened []*chain) {
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
		} else {
			c.set(results, look)
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
	return p.note(result(err))
}

// publishChain sends the requests of a group. After a request that is not confirmed, it sends no
// later one, which could overtake it. The later ones get the same outcome.
func (p *publisher) publishChain(ctx context.Context, c *chain, results []publish.Result) {
	last := publish.Result{Outcome: publish.Confirmed}
	for _, r := range c.requests {
		if last.Outcome == publish.Confirmed {
			last = p.send(ctx, r)
		}
		r.set(results, last)
	}
}

// send publishes one request, unless an earlier one is Unknown.
func (p *publisher) send(ctx context.Context, r *request) publish.Result {
	if p.firstUnknown() != nil {
		return p.notSent()
	}
	response, err := p.session.client.Publish(ctx, r.PublishRequest)
	if err == nil && len(response.MessageIds) != len(r.Messages) {
		err = fmt.Errorf("%d messages, but %d ids in the answer", len(r.Messages), len(response.MessageIds))
	}
	return p.note(result(err))
}

// note remembers the first Unknown.
func (p *publisher) note(r publish.Result) publish.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Outcome == publish.Unknown && p.unknown == nil {
		p.unknown = r.Err
	}
	return r
}

// notSent is the outcome of a message after the first Unknown.
func (p *publisher) notSent() publish.Result {
	return publish.Result{Outcome: publish.Unknown, Err: fmt.Errorf("%w: %w", publish.ErrNotSent, p.firstUnknown())}
}

func (p *publisher) firstUnknown() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unknown
}
