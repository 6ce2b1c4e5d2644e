package googlepubsub_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/transactional-outbox/examples/pubsub/fake"
	"example.com/transactional-outbox/examples/pubsub/googlepubsub"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/publish/publishtest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	publishtest.Run(t, func(t *testing.T) publishtest.Broker {
		l := newLab(t)
		received, gate := &received{lab: l}, &gate{}
		return publishtest.Broker{
			Connect: func(t *testing.T) publish.Session {
				l := lab{t, l.server, l.proxy}
				return l.session(time.Hour, oneConnection(), grpc.WithUnaryInterceptor(gate.interceptor))
			},
			Destination: topic, NoListener: publish.Message{Destination: unheard},
			Received: received.atLeast,
			Refuse: func(*testing.T) func() {
				l.server.Fail(fake.Publish, status.Error(codes.ResourceExhausted, "quota"))
				return func() { l.server.Fail(fake.Publish, nil) }
			},
			Hold: func(*testing.T) func() { gate.mu.Lock(); return gate.mu.Unlock },
			Held: publish.Message{Group: held},
			Cut:  func(*testing.T) { l.proxy.Cut() },
			Silence: func(*testing.T) func() {
				l.proxy.HoldReplies()
				return l.proxy.Resume
			},
			Invalid: invalid(),
			Impossible: map[string]string{
				"Restart": "the fake keeps messages in memory only",
				"Block":   "Pub/Sub does not ask its publishers to wait",
			},
		}
	})
}

// held is the group whose answers a gate holds back.
const held = "held"

type gate struct{ mu sync.RWMutex }

func (g *gate) interceptor(ctx context.Context, method string, request, reply any,
	conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	if p, ok := request.(*pubsubpb.PublishRequest); ok && p.Messages[0].OrderingKey == held {
		g.mu.RLock()
		defer g.mu.RUnlock()
	}
	return err
}

// invalid has messages that the fake would take, and Google would not.
func invalid() map[error]publish.Message {
	return map[error]publish.Message{
		publish.ErrTooLarge:   {Body: make([]byte, 10_000_000)},
		publish.ErrBadTopic:   {Topic: strings.Repeat("k", 1025)},
		publish.ErrBadHeaders: {Headers: map[string]any{"reason": strings.Repeat("r", 1025)}},
	}
}

// oneConnection makes gRPC fail when it connects a second time. Otherwise a connection that was cut
// between two batches would be replaced, and nobody would notice.
func oneConnection() grpc.DialOption {
	var used atomic.Bool
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, errors.New("this session has had its connection")
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	})
}

// received pulls messages, and keeps them by the number that the server gave them.
type received struct {
	lab
	messages map[int]publish.Message
}

func (r *received) atLeast(t *testing.T, n int) (all []publish.Message) {
	t.Helper()
	end := time.Now().Add(limit)
	for len(r.messages) < n {
		if time.Now().After(end) {
			t.Fatalf("%d of %d messages within %s", len(r.messages), n, limit)
		}
		r.pull(t)
	}
	for _, number := range slices.Sorted(maps.Keys(r.messages)) {
		all = append(all, r.messages[number])
	}
	return all
}

func (r *received) pull(t *testing.T) {
	t.Helper()
	subscription := r.server.SubscriptionName(orders)
	got, err := r.server.GServer.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: subscription})
	if err != nil {
		t.Fatal(err)
	}
	var acks []string
	for _, m := range got.ReceivedMessages {
		number, err := strconv.Atoi(strings.TrimPrefix(m.Message.MessageId, "m"))
		if err != nil {
			t.Fatal(err)
		}
		if r.messages == nil {
			r.messages = map[int]publish.Message{}
		}
		r.messages[number] = decode(m.Message)
		acks = append(acks, m.AckId)
	}
	if len(acks) == 0 {
		return
	}
	if _, err := r.server.GServer.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: subscription, AckIds: acks}); err != nil {
		t.Fatal(err)
	}
}

// decode returns a message as a consumer reads it.
func decode(m *pubsubpb.PubsubMessage) publish.Message {
	a := maps.Clone(m.Attributes)
	take := func(name string) string {
		defer delete(a, name)
		return a[name]
	}
	at, _ := time.Parse(time.RFC3339Nano, take(googlepubsub.Timestamp))
	got := publish.Message{
		ID: take(googlepubsub.ID), Destination: topic, Topic: take(googlepubsub.Key), Group: m.OrderingKey,
		ContentType: take(googlepubsub.ContentType), AppID: take(googlepubsub.AppID),
		Timestamp: at, Headers: map[string]any{}, Body: m.Data,
	}
	for name, value := range a {
		got.Headers[name] = value
	}
	return got
}
