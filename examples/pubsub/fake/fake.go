// Package fake is the server of the tests and of the demo: Google's own fake of Pub/Sub, package
// pstest, with real gRPC on a real port. It keeps messages in memory, and knows no quotas, no
// permissions and no limits. Its authors do not mean it as a perfect emulation.
package fake

import (
	"cmp"
	"context"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Server is a running fake.
type Server struct {
	*pstest.Server
	project string
	faults  *faults
}

// Methods that can be made to fail.
const (
	Publish                = "Publish"
	ListTopicSubscriptions = "ListTopicSubscriptions"
)

// Start starts a fake. The address is host:port; with port 0 it gets a free one.
func Start(address, project string) *Server {
	f := &faults{errors: map[call]error{}, calls: map[string]int{}}
	s := &Server{
		project: project, faults: f,
		Server: pstest.NewServerWithAddress(address,
			pstest.ServerReactorOption{FuncName: Publish, Reactor: reactor{f, Publish}},
			pstest.ServerReactorOption{FuncName: ListTopicSubscriptions, Reactor: reactor{f, ListTopicSubscriptions}}),
	}
	s.SetTimeNowFunc(increasing())
	return s
}

// increasing returns a clock that never gives the same time twice. The fake orders messages by
// the time, and delivers those of the same time in any order.
func increasing() func() time.Time {
	var mu sync.Mutex
	var last time.Time
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now().Round(0)
		if !now.After(last) {
			now = last.Add(time.Nanosecond)
		}
		last = now
		return now
	}
}

// TopicName returns the full name of a topic.
func (s *Server) TopicName(topic string) string { return "projects/" + s.project + "/topics/" + topic }

// SubscriptionName returns the full name of a subscription.
func (s *Server) SubscriptionName(subscription string) string {
	return "projects/" + s.project + "/subscriptions/" + subscription
}

// retention of a topic is advisable, but the fake does not retain anything.
const retention = 7 * 24 * time.Hour

// CreateTopic creates a topic without a subscription.
func (s *Server) CreateTopic(ctx context.Context, topic string) error {
	_, err := s.GServer.CreateTopic(ctx, &pubsubpb.Topic{
		Name: s.TopicName(topic), MessageRetentionDuration: durationpb.New(retention),
	})
	return err
}

// Subscribe creates a subscription with message ordering.
func (s *Server) Subscribe(ctx context.Context, topic, subscription string) error {
	_, err := s.GServer.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: s.SubscriptionName(subscription), Topic: s.TopicName(topic), EnableMessageOrdering: true, AckDeadlineSeconds: 60,
	})
	return err
}

// Unsubscribe deletes a subscription.
func (s *Server) Unsubscribe(ctx context.Context, subscription string) error {
	_, err := s.GServer.DeleteSubscription(ctx, &pubsubpb.DeleteSubscriptionRequest{Subscription: s.SubscriptionName(subscription)})
	return err
}

// Fail makes a method fail with err, until it is called with nil.
func (s *Server) Fail(method string, err error) { s.faults.set(call{method, all}, err) }

// FailOrder makes the requests with messages of one ordering key to a topic fail, until it is
// called with nil.
func (s *Server) FailOrder(topic, orderingKey string, err error) {
	s.faults.set(call{Publish, s.TopicName(topic) + "/" + orderingKey}, err)
}

// Calls returns how many requests have called a method.
func (s *Server) Calls(method string) int { return s.faults.count(method) }

// call is a method, for all requests or for those of one topic and ordering key.
type call struct{ method, only string }

const all = ""

// faults are the errors that methods return.
type faults struct {
	mu     sync.Mutex
	errors map[call]error
	calls  map[string]int
}

func (f *faults) set(c call, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors[c] = err
}

func (f *faults) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// reactor is what pstest asks before each call of a method.
type reactor struct {
	*faults
	method string
}

// React implements [pstest.Reactor].
func (r reactor) React(request any) (handled bool, response any, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[r.method]++
	err = r.errors[call{r.method, all}]
	if p, ok := request.(*pubsubpb.PublishRequest); ok {
		for _, m := range p.GetMessages() {
			err = cmp.Or(err, r.errors[call{r.method, p.GetTopic() + "/" + m.GetOrderingKey()}])
		}
	}
	return err != nil, nil, err
}
