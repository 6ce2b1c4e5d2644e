package googlepubsub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"

	"example.com/transactional-outbox/outbox/publish"
)

// Config says which topics a session publishes to. It is a [publish.Destination].
type Config struct {
	// Project has the topics. A destination is the name of a topic in it.
	Project string
	// Topics must exist when the session opens. The first one gets the messages that name no
	// destination.
	Topics []string
	// LookEvery is how often a publisher looks whether a topic has a subscription. With 0 it looks
	// before each batch. If somebody deletes the last subscription, the messages that Pub/Sub
	// confirms until the next look are lost, unless the topic retains its messages.
	LookEvery time.Duration
}

// connectTimeout bounds the requests with which a session begins.
const connectTimeout = 10 * time.Second

// Session is a connection to Pub/Sub.
type Session struct {
	config        Config
	client        *pubsub.TopicAdminClient
	subscriptions subscriptions
	open          context.Context // ends when the session is closed
	end           context.CancelCauseFunc
}

// errClosed is the reason after Close.
var errClosed = errors.New("it is closed")

// Connect opens a connection, and checks that the topics exist. If PUBSUB_EMULATOR_HOST is set,
// it connects there, without credentials. Otherwise it connects to Google, with the default
// credentials of the machine.
func Connect(ctx context.Context, c Config, options ...option.ClientOption) (*Session, error) {
	client, err := pubsub.NewTopicAdminClient(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to Pub/Sub: %w", err)
	}
	// Otherwise the client would still retry after the relay has given up.
	client.CallOptions = &pubsub.TopicAdminCallOptions{}
	s := &Session{config: c, client: client, subscriptions: newSubscriptions(client, c.LookEvery)}
	s.open, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := s.checkTopics(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("connect to Pub/Sub: %w", err)
	}
	return s, nil
}

// checkTopics returns an error if a topic does not exist. It logs a warning if a topic does not
// keep the messages that are published while it has no subscription.
func (s *Session) checkTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for _, name := range s.config.Topics {
		topic, err := s.client.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: s.topic(name)})
		if err != nil {
			return err
		}
		if _, err := s.subscriptions.exist(ctx, topic.Name); err != nil {
			return err
		}
		if topic.MessageRetentionDuration == nil {
			slog.WarnContext(ctx, "the topic retains no messages: if its last subscription is deleted, "+
				"what it confirms before the relay looks again is lost", "topic", topic.Name, "looks_every", s.config.LookEvery.String())
		}
	}
	return nil
}

// topic returns the full name of a topic. The empty name is the first topic.
func (s *Session) topic(name string) string {
	return "projects/" + s.config.Project + "/topics/" + cmp.Or(name, s.config.Topics[0])
}

// NewPublisher returns a publisher. All publishers of a session share its connection.
func (s *Session) NewPublisher(int) (publish.Publisher, error) {
	p := &publisher{session: s, places: make(chan struct{}, maxInFlight)}
	p.open, p.end = context.WithCancelCause(s.open)
	return p, context.Cause(s.open)
}

// Blocked is false: Pub/Sub does not ask its publishers to wait.
func (s *Session) Blocked() bool { return false }

// Close closes the connection. What is being published becomes Unknown.
func (s *Session) Close() {
	s.end(errClosed)
	_ = s.client.Close()
}
