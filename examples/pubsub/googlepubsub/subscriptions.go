package googlepubsub

import (
	"context"
	"errors"
	"sync"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// subscriptions remembers which topics have a subscription, because Pub/Sub confirms and drops the
// messages of the others. After maxAge it asks again. It does not remember that a topic has none:
// it asks each time.
type subscriptions struct {
	client *pubsub.TopicAdminClient
	maxAge time.Duration
	mu     *sync.Mutex
	seen   map[string]time.Time // when a topic last had a subscription
}

func newSubscriptions(client *pubsub.TopicAdminClient, maxAge time.Duration) subscriptions {
	return subscriptions{client: client, maxAge: maxAge, mu: &sync.Mutex{}, seen: map[string]time.Time{}}
}

// exist reports whether a topic exists and has a subscription. Publishers that ask at the same
// time wait for one answer.
func (s subscriptions) exist(ctx context.Context, topic string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := time.Now() // before the question, so that a slow answer is not taken for a new one
	if seen, ok := s.seen[topic]; ok && asked.Sub(seen) < s.maxAge {
		return true, nil
	}
	delete(s.seen, topic)
	request := &pubsubpb.ListTopicSubscriptionsRequest{Topic: topic, PageSize: 1}
	_, err := s.client.ListTopicSubscriptions(ctx, request).Next()
	switch {
	case errors.Is(err, iterator.Done), status.Code(err) == codes.NotFound:
		return false, nil
	case err != nil:
		return false, err
	}
	s.seen[topic] = asked
	return true, nil
}
