// Command pubsub saves an order and publishes its events to Google Pub/Sub. Only the function publish
// is about Pub/Sub; the rest is the same for each broker.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	if stop(); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	pool, err := pgxpool.New(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "DATABASE_URL is not set"))
	if err != nil {
		return err
	}
	defer pool.Close()
	// gRPC would use a connection that died silently for ever. 5 minutes are what servers permit.
	topics, err := pubsub.NewTopicAdminClient(ctx, option.WithGRPCDialOption(grpc.WithKeepaliveParams(
		keepalive.ClientParameters{Time: 5 * time.Minute, Timeout: 10 * time.Second})))
	if err != nil {
		return err
	}
	defer topics.Close()
	subscriber, err := pubsub.NewSubscriptionAdminClient(ctx)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	err = createTopic(ctx, topics, subscriber)
	topics.CallOptions = &pubsub.TopicAdminCallOptions{} // without retries: the relay retries
	relay, err2 := outbox.NewRelay(pool, publish.Func(publisher{topics}.publish, publish.FuncConfig{OneDestination: true}),
		outbox.RelayConfig{AppID: "orders"})
	_, err3 := pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, version int NOT NULL)")
	if err := errors.Join(err, err2, err3, outbox.Migrate(ctx, pool)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return relay.Run(ctx) })
	group.Go(func() error {
		defer stop() // ends the relay
		id := rand.Text()
		for i, topic := range []string{"order.created", "order.confirmed"} {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return saveOrder(ctx, tx, id, i+1, topic) })
			if err != nil {
				return err
			}
			relay.Wake() // optional: published within milliseconds instead of at the next poll
		}
		return receive(ctx, subscriber, id)
	})
	return group.Wait()
}

const saveSQL = "INSERT INTO orders (id, version) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET version = $2"

func saveOrder(ctx context.Context, tx pgx.Tx, id string, version int, topic string) error {
	if _, err := tx.Exec(ctx, saveSQL, id, version); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Topic: topic, Aggregate: "order", AggregateID: id, Version: version,
		Payload: fmt.Appendf(nil, `{"order":%q}`, id),
	})
}

// receive prints what a subscriber gets, until both messages of the order have arrived.
func receive(ctx context.Context, subscriber *pubsub.SubscriptionAdminClient, order string) error {
	for received := 0; received < 2; {
		pulled, err := subscriber.Pull(ctx, &pubsubpb.PullRequest{Subscription: subscriptionName, MaxMessages: 10})
		if err != nil {
			return fmt.Errorf("%d of 2 messages of order %s have arrived: %w", received, order, err)
		}
		for _, r := range pulled.GetReceivedMessages() {
			m := r.GetMessage()
			fmt.Printf("%s  %s  message %s\n", m.Attributes["topic"], m.Data, m.Attributes["id"])
			ack := &pubsubpb.AcknowledgeRequest{Subscription: subscriptionName, AckIds: []string{r.GetAckId()}}
			if err := subscriber.Acknowledge(ctx, ack); err != nil {
				return err
			}
			if strings.Contains(string(m.Data), order) {
				received++
			}
		}
	}
	return nil
}

var (
	project          = "projects/" + cmp.Or(os.Getenv("PUBSUB_PROJECT_ID"), "demo")
	topicName        = project + "/topics/outbox-events"
	subscriptionName = project + "/subscriptions/notifications"
)

// createTopic creates the topic and a subscription, if they are not there. Pub/Sub confirms and drops
// what no subscription gets, unless the topic retains its messages: then a new one can seek back.
func createTopic(
	ctx context.Context, topics *pubsub.TopicAdminClient, subscriptions *pubsub.SubscriptionAdminClient,
) error {
	_, err := topics.CreateTopic(ctx, &pubsubpb.Topic{
		Name: topicName, MessageRetentionDuration: durationpb.New(7 * 24 * time.Hour),
	})
	_, err2 := subscriptions.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: subscriptionName, Topic: topicName, EnableMessageOrdering: true,
		ExpirationPolicy: &pubsubpb.ExpirationPolicy{}, // never; by default it ends 31 days after its last use
	})
	for _, err := range []error{err, err2} {
		if err != nil && status.Code(err) != codes.AlreadyExists {
			return err
		}
	}
	return nil
}

type publisher struct{ *pubsub.TopicAdminClient }

// publish returns nil when Pub/Sub has stored the message. Any other answer is an error, which tells
// the relay what to do: see [publish.Func].
func (p publisher) publish(ctx context.Context, m publish.Message) error {
	message, err := convert(m)
	if err != nil {
		return err
	}
	var server peer.Peer
	_, err = p.Publish(ctx, &pubsubpb.PublishRequest{Topic: topicName, Messages: []*pubsubpb.PubsubMessage{message}},
		gax.WithGRPCOptions(grpc.Peer(&server)))
	switch code := status.Code(err); {
	case err == nil:
		return nil
	case code == codes.NotFound: // the topic does not exist
		return fmt.Errorf("%w: %w", publish.ErrReturned, err)
	case code == codes.Unauthenticated, code == codes.Unavailable && server.Addr == nil: // no token, or no connection
		return fmt.Errorf("%w: %w", publish.ErrNotSent, err)
	case code == codes.InvalidArgument, code == codes.FailedPrecondition,
		code == codes.PermissionDenied, code == codes.ResourceExhausted:
		return err // refused, by the topic's schema, a right or a quota: all of them may change
	}
	return fmt.Errorf("%w: %w", publish.ErrTimeout, err) // Pub/Sub may have it
}

// convert returns an error for a message beyond the limits of Pub/Sub. A retry would not help. The
// body needs no check: Pub/Sub takes 10 MB, and an event has at most 256 KiB.
func convert(m publish.Message) (*pubsubpb.PubsubMessage, error) {
	attributes := map[string]string{
		"id": m.ID, "topic": m.Topic, "content-type": m.ContentType,
		"app-id": m.AppID, "timestamp": m.Timestamp.Format(time.RFC3339Nano),
	}
	for name, value := range m.Headers {
		text := fmt.Sprint(value)
		if _, taken := attributes[name]; taken || strings.HasPrefix(name, "goog") || len(name) > 256 || len(text) > 1024 {
			return nil, fmt.Errorf("%w: %q is too large, or its name is reserved", publish.ErrBadHeaders, name)
		}
		attributes[name] = text
	}
	if len(attributes) > 100 {
		return nil, fmt.Errorf("%w: %d attributes, Pub/Sub takes 100", publish.ErrBadHeaders, len(attributes))
	}
	return &pubsubpb.PubsubMessage{Data: m.Body, Attributes: attributes, OrderingKey: m.Group}, nil
}
