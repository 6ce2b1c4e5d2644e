package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTheProgram(t *testing.T) {
	t.Setenv("DATABASE_URL", servers.Database(t))
	t.Setenv("PUBSUB_EMULATOR_HOST", newBroker(t).server.Addr)
	check.Must(t, run(t.Context()))
}

// TestEachAnswerHasItsOutcome through a relay. Nothing fails but what Pub/Sub could never take, and
// all events of an order arrive once, unchanged, in their order.
func TestEachAnswerHasItsOutcome(t *testing.T) {
	t.Parallel()
	never := func(header, value string) []outbox.Event {
		return []outbox.Event{{Topic: "a.b", Payload: []byte("{}"), Headers: map[string]string{header: value}}}
	}
	for name, row := range map[string]struct {
		fault, mend func(*broker)
		answer      codes.Code     // instead of publishing
		never       []outbox.Event // Pub/Sub could never take it
		code        string         // the failure_code, or not_sent
	}{
		"no fault":        {},
		"no topic":        {fault: (*broker).delete, mend: (*broker).create, code: "unroutable"},
		"stopped":         {fault: (*broker).stop, mend: (*broker).start, code: "not_sent"},
		"no valid token":  {answer: codes.Unauthenticated, code: "not_sent"},
		"no answer":       {answer: codes.DeadlineExceeded, code: "no_answer"},
		"connection lost": {answer: codes.Unavailable, code: "no_answer"},
		"quota":           {answer: codes.ResourceExhausted, code: "refused"},
		"schema":          {answer: codes.InvalidArgument, code: "refused"},
		"value too large": {never: never("a", strings.Repeat("x", 1025)), code: "bad_headers"},
		"reserved name":   {never: never("google", "x"), code: "bad_headers"},
		"name of its own": {never: never("id", "x"), code: "bad_headers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			if row.fault != nil {
				row.fault(b)
			}
			b.answer.Store(uint32(row.answer))
			pool, err := pgxpool.New(t.Context(), servers.Database(t))
			check.Must(t, err)
			t.Cleanup(pool.Close)
			check.Must(t, outbox.Migrate(t.Context(), pool))
			events := row.never
			for i, topic := range []string{"order.created", "order.confirmed", "order.cancelled"} {
				events = append(events, outbox.Event{
					Topic: topic, Aggregate: "order", AggregateID: "a b.c", Version: i + 1, Traceparent: trace,
					Payload: []byte{0, 255, '\n'}, ContentType: "text/x", Headers: map[string]string{"tenant": "ä 7"},
				})
			}
			check.Must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				return outbox.Append(t.Context(), tx, events...)
			}))
			var notSent atomic.Bool
			relay, err := outbox.NewRelay(pool, publish.Func(4, func(ctx context.Context, m publish.Message) error {
				err := publisher{b.client}.publish(ctx, m)
				if errors.Is(err, publish.ErrNotSent) {
					notSent.Store(true)
				}
				return err
			}), outbox.RelayConfig{AppID: "orders"})
			check.Must(t, err)
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error)
			go func() { ended <- relay.Run(ctx) }()
			defer func() { stop(); check.Must(t, <-ended) }()

			state := func(column string) (all string) {
				query := "SELECT string_agg(" + column + "::text, ' ' ORDER BY seq) FROM outbox_status"
				check.Must(t, pool.QueryRow(t.Context(), query).Scan(&all))
				return all
			}
			check.Await(t, "the answer", func() bool {
				if row.code == "not_sent" {
					return notSent.Load()
				}
				return strings.Contains(state("coalesce(failure_code, '')"), row.code)
			})
			b.answer.Store(uint32(codes.OK))
			if row.mend != nil {
				row.mend(b)
			}
			want := strings.Repeat("failed ", len(row.never)) + "published published published"
			check.Await(t, want, func() bool { return state("status") == want })
			if counts := state("retry_count"); row.code == "not_sent" && counts != "0 0 0" {
				t.Errorf("an outage was counted: %s", counts)
			}
			sent := state("CASE status WHEN 'published' THEN topic || ' ' || id END")
			if got := b.received(); got != sent {
				t.Errorf("received %s, sent %s", got, sent)
			}
		})
	}
}

// received returns the topics and ids of what Pub/Sub has.
func (b *broker) received() string {
	var all []string
	for _, m := range b.server.Messages() {
		all = append(all, m.Attributes["topic"]+" "+m.Attributes["id"])
		a := m.Attributes
		got := fmt.Sprintf("%s %s %s %s %q", a["content-type"], a["tenant"], a["traceparent"], m.OrderingKey, m.Data)
		if want := "text/x ä 7 " + trace + ` a b.c "\x00\xff\n"`; got != want {
			b.t.Errorf("received %s, want %s", got, want)
		}
	}
	return strings.Join(all, " ")
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
