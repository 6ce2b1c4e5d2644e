package googlepubsub_test

import (
	"crypto/rand"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"example.com/transactional-outbox/examples/pubsub/fake"
	"example.com/transactional-outbox/examples/pubsub/googlepubsub"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/servers"
)

func TestMain(m *testing.M) {
	// OpenCensus, which the library of Google uses, has a goroutine that never ends.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const (
	project = "test"
	topic   = "events"     // has a subscription
	unheard = "unheard"    // has none
	missing = "missing"    // does not exist
	orders  = "sub-events" // the subscription of events
	limit   = time.Minute  // how long a test waits for an event before it fails
)

// lab is a fake server with a proxy in front of it.
type lab struct {
	*testing.T
	server *fake.Server
	proxy  *servers.Proxy
}

func newLab(t *testing.T) lab {
	t.Helper()
	l := lab{t, fake.Start("127.0.0.1:0", project), nil}
	t.Cleanup(func() { _ = l.server.Close() })
	l.proxy = servers.NewProxy(t, l.server.Addr)
	l.must(l.server.CreateTopic(t.Context(), topic))
	l.must(l.server.Subscribe(t.Context(), topic, orders))
	l.must(l.server.CreateTopic(t.Context(), unheard))
	return l
}

func (l lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// options connect a client to the fake, through the proxy.
func (l lab) options(more ...grpc.DialOption) []option.ClientOption {
	options := []option.ClientOption{
		option.WithEndpoint(l.proxy.Addr()), option.WithoutAuthentication(), option.WithTelemetryDisabled(),
	}
	for _, o := range append(more, grpc.WithTransportCredentials(insecure.NewCredentials())) {
		options = append(options, option.WithGRPCDialOption(o))
	}
	return options
}

// session opens a session. With 0 each batch looks whether there is a subscription.
func (l lab) session(lookEvery time.Duration, more ...grpc.DialOption) *googlepubsub.Session {
	l.Helper()
	c := googlepubsub.Config{Project: project, Topics: []string{topic}, LookEvery: lookEvery}
	s, err := googlepubsub.Connect(l.Context(), c, l.options(more...)...)
	l.must(err)
	l.Cleanup(s.Close)
	return s
}

func (l lab) publisher(s *googlepubsub.Session) publish.Publisher {
	l.Helper()
	p, err := s.NewPublisher(500)
	l.must(err)
	l.Cleanup(p.Close)
	return p
}

// message returns a valid message.
func message(group string) publish.Message {
	return publish.Message{
		ID: rand.Text(), Destination: topic, Topic: "order.created", Group: group,
		ContentType: "application/json", Headers: map[string]any{}, Body: []byte(`{}`),
	}
}

// want publishes one message, and requires its outcome.
func (l lab) want(p publish.Publisher, m publish.Message, outcome publish.Outcome) {
	l.Helper()
	got := publish.All(p, []publish.Message{m}, limit)[0]
	if got.Outcome != outcome {
		l.Fatalf("outcome %d (%v), want %d", got.Outcome, got.Err, outcome)
	}
}

// stored returns the ids of what the server has stored, in that order.
func (l lab) stored() (ids []string) {
	for _, m := range l.server.Messages() {
		ids = append(ids, m.Attributes[googlepubsub.ID])
	}
	return ids
}

// await polls until ok.
func (l lab) await(what string, ok func() bool) {
	l.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("%s: not within %s", what, limit)
		}
	}
}
