package googlepubsub

import (
	"fmt"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"

	"example.com/transactional-outbox/outbox/publish"
)

// chain has the requests of one group, which are sent one after the other.
type chain struct{ requests []*request }

// request has messages of one group. Pub/Sub stores all of them or none.
type request struct {
	*pubsubpb.PublishRequest
	bytes   int
	indexes []int // of the messages in the batch
}

// group is what the messages of a chain have in common.
type group struct{ topic, orderingKey string }

// split divides a batch into requests. It sets the results of messages that no request can carry.
func (p *publisher) split(messages []publish.Message, results []publish.Result) []*chain {
	var chains []*chain
	byGroup := map[group]*chain{}
	for i, m := range messages {
		topic := p.session.topic(m.Destination)
		encoded, err := encode(m)
		if err == nil && !newRequest(topic).add(encoded, i) {
			err = fmt.Errorf("%w: the limit is %d bytes, with the attributes", publish.ErrTooLarge, maxRequestBytes)
		}
		if err != nil {
			results[i] = publish.Result{Outcome: publish.Invalid, Err: err}
			continue
		}
		key := group{topic, m.Group}
		if byGroup[key] == nil {
			byGroup[key] = &chain{}
			chains = append(chains, byGroup[key])
		}
		byGroup[key].add(topic, encoded, i)
	}
	return chains
}

func (c *chain) add(topic string, m *pubsubpb.PubsubMessage, index int) {
	if n := len(c.requests); n == 0 || !c.requests[n-1].add(m, index) {
		next := newRequest(topic)
		next.add(m, index)
		c.requests = append(c.requests, next)
	}
}

func newRequest(topic string) *request {
	r := &pubsubpb.PublishRequest{Topic: topic}
	return &request{PublishRequest: r, bytes: proto.Size(r)}
}

// fieldBytes is the most that the length of a message takes in a request.
const fieldBytes = 6

// add reports whether the request has room for a message.
func (r *request) add(m *pubsubpb.PubsubMessage, index int) bool {
	bytes := r.bytes + fieldBytes + proto.Size(m)
	if bytes > maxRequestBytes || len(r.Messages) == maxRequestMessages {
		return false
	}
	r.bytes, r.Messages, r.indexes = bytes, append(r.Messages, m), append(r.indexes, index)
	return true
}

// set writes the outcome of all messages of the chain.
func (c *chain) set(results []publish.Result, result publish.Result) {
	for _, r := range c.requests {
		r.set(results, result)
	}
}

func (r *request) set(results []publish.Result, result publish.Result) {
	for _, i := range r.indexes {
		results[i] = result
	}
}
