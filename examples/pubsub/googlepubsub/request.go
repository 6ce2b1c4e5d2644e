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
	answer  func(i int, r publish.Result)
}

// group is what the messages of a chain have in common.
type group struct{ topic, orderingKey string }

// split divides a batch into requests. It answers for the messages that no request can carry.
func (p *publisher) split(messages []publish.Message, answer func(i int, r publish.Result)) []*chain {
	var chains []*chain
	byGroup := map[group]*chain{}
	for i, m := range messages {
		topic := p.session.topic(m.Destination)
		encoded, err := encode(m)
		if err == nil && !newRequest(topic, answer).add(encoded, i) {
			err = fmt.Errorf("%w: the limit is %d bytes, with the attributes", publish.ErrTooLarge, maxRequestBytes)
		}
		if err != nil {
			answer(i, publish.Result{Outcome: publish.Invalid, Err: err})
			continue
		}
		key := group{topic, m.Group}
		if byGroup[key] == nil {
			byGroup[key] = &chain{}
			chains = append(chains, byGroup[key])
		}
		byGroup[key].add(encoded, i, func() *request { return newRequest(topic, answer) })
	}
	return chains
}

func (c *chain) add(m *pubsubpb.PubsubMessage, index int, another func() *request) {
	if n := len(c.requests); n == 0 || !c.requests[n-1].add(m, index) {
		next := another()
		next.add(m, index)
		c.requests = append(c.requests, next)
	}
}

func newRequest(topic string, answer func(int, publish.Result)) *request {
	r := &pubsubpb.PublishRequest{Topic: topic}
	return &request{PublishRequest: r, bytes: proto.Size(r), answer: answer}
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

// answerAll answers for all messages of the request.
func (r *request) answerAll(result publish.Result) {
	for _, i := range r.indexes {
		r.answer(i, result)
	}
}
