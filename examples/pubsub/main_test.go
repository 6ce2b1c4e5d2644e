package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

func TestTheProgram(t *testing.T) {
	t.Setenv("DATABASE_URL", servers.Database(t))
	t.Setenv("PUBSUB_EMULATOR_HOST", newBroker(t).server.Addr)
	check.Must(t, run(t.Context()))
}

var errRefused = errors.New("refused")

// TestEachAnswerHasItsError is about the function that a relay calls. What Pub/Sub could not take for
// a while arrives later, once and unchanged.
func TestEachAnswerHasItsError(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fault, mend func(*broker)
		answer      codes.Code // instead of publishing
		name, value string     // a header that Pub/Sub could never take
		want        error
	}{
		"no fault":        {},
		"no topic":        {fault: (*broker).delete, mend: (*broker).create, want: publish.ErrReturned},
		"stopped":         {fault: (*broker).stop, mend: (*broker).start, want: publish.ErrNotSent},
		"no valid token":  {answer: codes.Unauthenticated, want: publish.ErrNotSent},
		"no answer":       {answer: codes.DeadlineExceeded, want: publish.ErrTimeout},
		"connection lost": {answer: codes.Unavailable, want: publish.ErrTimeout},
		"quota":           {answer: codes.ResourceExhausted, want: errRefused},
		"schema":          {answer: codes.InvalidArgument, want: errRefused},
		"value too large": {name: "a", value: strings.Repeat("x", 1025), want: publish.ErrBadHeaders},
		"reserved name":   {name: "google", want: publish.ErrBadHeaders},
		"name of its own": {name: "id", want: publish.ErrBadHeaders},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			if row.fault != nil {
				row.fault(b)
			}
			b.answer.Store(uint32(row.answer))
			m := publish.Message{
				ID: "17", Topic: "order.created", Group: "a b.c", ContentType: "text/x", Body: []byte{0, 255, '\n'},
				Headers: map[string]any{"tenant": "ä 7", "traceparent": "00-1-2-01"},
			}
			if row.name != "" {
				m.Headers[row.name] = row.value
			}
			publishesWith := func(want error) func() bool {
				return func() bool { return errors.Is(class(publisher{b.client}.publish(t.Context(), m)), want) }
			}
			check.Await(t, "the answer", publishesWith(row.want))
			b.answer.Store(uint32(codes.OK))
			if row.mend != nil {
				row.mend(b)
			}
			var want []string
			if row.name == "" {
				want = []string{`order.created 17 text/x ä 7 00-1-2-01 a b.c "\x00\xff\n"`}
			}
			if row.name == "" && row.want != nil {
				check.Await(t, "a confirm", publishesWith(nil))
			}
			if got := b.received(); !slices.Equal(got, want) {
				t.Errorf("received %q, want %q", got, want)
			}
		})
	}
}

// class returns what an error tells a relay.
func class(err error) error {
	for _, class := range []error{nil, publish.ErrReturned, publish.ErrNotSent, publish.ErrTimeout, publish.ErrBadHeaders} {
		if errors.Is(err, class) {
			return class
		}
	}
	return errRefused
}

// received returns what Pub/Sub has.
func (b *broker) received() (all []string) {
	for _, m := range b.server.Messages() {
		a := m.Attributes
		all = append(all, fmt.Sprintf("%s %s %s %s %s %s %q",
			a["topic"], a["id"], a["content-type"], a["tenant"], a["traceparent"], m.OrderingKey, m.Data))
	}
	return all
}

// broker is Google's fake of Pub/Sub, and a connection to it.
type broker struct {
	t      *testing.T
	server *pstest.Server
	client *pubsub.TopicAdminClient
	answer atomic.Uint32 // a code, instead of publishing
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	b := &broker{t: t}
	b.listen("127.0.0.1:0")
	client, err := pubsub.NewTopicAdminClient(t.Context(),
		option.WithEndpoint(b.server.Addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	check.Must(t, err)
	client.CallOptions = &pubsub.TopicAdminCallOptions{}
	b.client = client
	t.Cleanup(func() { _ = client.Close(); b.stop() })
	return b
}

func (b *broker) listen(address string) {
	b.server = pstest.NewServerWithAddress(address, pstest.ServerReactorOption{FuncName: "Publish", Reactor: b})
	b.create()
}

// React is what the fake does in place of publishing.
func (b *broker) React(any) (bool, any, error) {
	code := codes.Code(b.answer.Load())
	return code != codes.OK, &pubsubpb.PublishResponse{}, status.Error(code, "the test")
}

func (b *broker) stop()  { _ = b.server.Close() }
func (b *broker) start() { b.listen(b.server.Addr) }

func (b *broker) create() {
	_, err := b.server.GServer.CreateTopic(b.t.Context(), &pubsubpb.Topic{Name: topicName})
	check.Must(b.t, err)
}

func (b *broker) delete() {
	_, err := b.server.GServer.DeleteTopic(b.t.Context(), &pubsubpb.DeleteTopicRequest{Topic: topicName})
	check.Must(b.t, err)
}
