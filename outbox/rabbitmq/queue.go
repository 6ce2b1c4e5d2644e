package rabbitmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/rabbitmq/amqpurl"
)

// Queue has the settings of a [Consumer]: which messages it takes, and what it does with those that
// fail. Only Name is required.
type Queue struct {
	// Name is the name of the queue. The queues that belong to it have names that begin with it: the
	// retry queues NAME.retry.30s and so on, and NAME.dlq for the dead letters.
	Name string
	// Exchange is where the messages come from. It belongs to the publisher, so the consumer does not
	// declare it: the consumer waits until the publisher has. If it is empty, the queue has no
	// binding, and Topics must be empty too.
	Exchange string
	// Topics are the routing keys of the queue's bindings. With a wildcard, the handler may get
	// messages that it does not know. A topic that you remove stays bound: move it to FormerTopics.
	Topics []string
	// FormerTopics are routing keys that are unbound at each start, and every ten seconds, because an
	// old replica may bind them again. The first message of a session that still comes with one of them
	// is a warning in the log. It is handled.
	FormerTopics []string
	// NoDeclare is for a user without the right to configure: somebody else has declared [Queue.Topology].
	NoDeclare bool
	// FreshURL is asked for the broker's URL at each new connection, if it is set: a password may have
	// changed.
	FreshURL func() (string, error)

	// Check is called for each message, before the handler. Its error is permanent: the message
	// becomes a dead letter. So leave it to the handler to refuse types that it does not know yet.
	Check func(Message) error
	// ID makes the id of a message that has none. Without it, an inbox makes that a dead letter. If two
	// producers may send the same id to this queue, only the first of the two messages has an effect:
	// let the handler pass them to the inbox as a type whose method MessageID has the producer, too.
	ID func(Message) string
	// Retry has the delay before each retry of a message that failed. After the last delay, all
	// further retries have the same one. The default is 30 s, 1 min, 5 min.
	Retry []time.Duration
	// GiveUp is how long after its first failure a message becomes a dead letter. The
	// default is 24 h.
	GiveUp time.Duration

	BatchSize int // at most so many messages are handled at once; default: 64
	Prefetch  int // at most so many messages are unacknowledged; default: 256, or BatchSize if that is more
	// DeliveryLimit is how often the broker delivers a message that was never acknowledged, before
	// the broker itself makes it a dead letter. Such a message may have killed the process. Each end of
	// a session counts for each message that was unacknowledged then: only for one, after a connect,
	// until a new message was acknowledged. The default is 50.
	DeliveryLimit int
	// ConsumerTimeout is the broker's consumer_timeout. It ends the session if a message is not
	// acknowledged in this time, and Prefetch messages wait for their turn. So half of it after they
	// came, those that are not begun are given back. The default is the broker's, 30 min.
	ConsumerTimeout time.Duration
	// HandleTimeout ends the context of one call of the handler. The default is 1 min.
	HandleTimeout time.Duration
	// ShutdownTimeout is how long Run may finish what is in flight after its context has ended. The
	// default is 20 s.
	ShutdownTimeout time.Duration

	Logger         *slog.Logger         // default: slog.Default()
	TracerProvider trace.TracerProvider // default: otel.GetTracerProvider()
}

// Handler handles messages. Package inbox has one that handles each message once.
//
// It may have two more methods:
//
//   - Run(ctx context.Context) error runs beside the consumer, until ctx ends. Its error ends the
//     consumer.
//   - Ready(ctx context.Context) (now time.Time, err error) is asked after Handle has failed for
//     one message alone. Nil means that the handler could handle another message, so the error is
//     the message's own. Otherwise nothing is taken until Ready returns nil. Its time is the clock
//     for [Queue.GiveUp]: a database's, which all replicas share. Without Ready every error is the
//     message's own, and the clock is the process's.
//
// If it has neither, but calls an inbox of package inbox, the consumer finds the inbox at the first
// call, and uses the two methods of that.
type Handler interface {
	// Handle handles a batch: all of it, or nothing. After nil the messages are acknowledged. After
	// an error or a panic they are handled again one by one, if they are several. A message that has
	// failed before comes alone. The consumer calls it for one batch after the other. It must return
	// soon after the end of ctx, and must not change the messages, because a copy of them may follow.
	Handle(ctx context.Context, batch []Message) error
}

// HandlerFunc is a function that is a [Handler].
type HandlerFunc func(ctx context.Context, batch []Message) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, batch []Message) error { return f(ctx, batch) }

// ErrPermanent is for a handler: if its error wraps ErrPermanent, to try again does not help, and
// the message becomes a dead letter at once:
//
//	return fmt.Errorf("%w: %w", rabbitmq.ErrPermanent, err)
//
// The code of the dead letter is then "permanent". An error with a method DeadLetterCode() string
// says the same, and names a code of its own, from a small set.
var ErrPermanent = errors.New("to try again does not help")

// withDefaults fills what is zero.
func (q Queue) withDefaults() Queue {
	if len(q.Retry) == 0 {
		q.Retry = []time.Duration{30 * time.Second, time.Minute, 5 * time.Minute}
	}
	if q.Check == nil {
		q.Check = func(Message) error { return nil }
	}
	q.GiveUp = cmp.Or(q.GiveUp, 24*time.Hour)
	q.BatchSize = cmp.Or(q.BatchSize, 64)
	q.Prefetch = cmp.Or(q.Prefetch, max(256, q.BatchSize))
	q.DeliveryLimit = cmp.Or(q.DeliveryLimit, 50)
	q.ConsumerTimeout = cmp.Or(q.ConsumerTimeout, 30*time.Minute)
	q.HandleTimeout = cmp.Or(q.HandleTimeout, time.Minute)
	q.ShutdownTimeout = cmp.Or(q.ShutdownTimeout, 20*time.Second)
	if q.Logger == nil {
		q.Logger = slog.Default()
	}
	if q.TracerProvider == nil {
		q.TracerProvider = otel.GetTracerProvider()
	}
	return q
}

// isFormer is true for the key of a message that should not come any more. With a pattern it might.
func (q Queue) isFormer(key string) bool {
	isPattern := func(topic string) bool { return strings.ContainsAny(topic, "*#") }
	return slices.Contains(q.FormerTopics, key) && !slices.ContainsFunc(q.Topics, isPattern)
}

// maxName leaves room for what is added to it: AMQP's names have at most 255 bytes.
const maxName = 200

// maxPrefetch bounds the memory: each of these messages may have MaxBody bytes.
const maxPrefetch = 2000

// check returns all settings that cannot work.
func (q Queue) check(url string) error {
	var errs []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("rabbitmq: "+format, args...))
		}
	}
	_, err := amqpurl.Split(url)
	refuse(err != nil, "the broker's URL %w", err)
	refuse(q.Name == "" || len(q.Name) > maxName, "the queue's name %q must have 1 to %d bytes", q.Name, maxName)
	refuse((q.Exchange == "" || q.NoDeclare) && len(q.FormerTopics) > 0, "FormerTopics must be empty without Exchange, and with NoDeclare")
	for _, former := range q.FormerTopics {
		refuse(slices.Contains(q.Topics, former), "%q is in Topics and in FormerTopics", former)
	}
	refuse((q.Exchange == "") != (len(q.Topics) == 0), "Exchange and Topics must both be set, or both be empty")
	for _, delay := range q.Retry {
		refuse(delay < time.Millisecond, "a retry after %s: the least is 1 ms", delay)
	}
	refuse(q.GiveUp < 0, "GiveUp %s is negative", q.GiveUp)
	refuse(q.BatchSize < 1, "BatchSize %d must be at least 1", q.BatchSize)
	refuse(q.Prefetch < q.BatchSize || q.Prefetch > maxPrefetch,
		"Prefetch %d must be between BatchSize (%d) and %d", q.Prefetch, q.BatchSize, maxPrefetch)
	refuse(q.DeliveryLimit < 1, "DeliveryLimit %d must be at least 1", q.DeliveryLimit)
	refuse(q.HandleTimeout <= 0 || q.HandleTimeout > q.ConsumerTimeout/2,
		"HandleTimeout %s must be positive, and at most half of ConsumerTimeout (%s)", q.HandleTimeout, q.ConsumerTimeout)
	refuse(q.ShutdownTimeout <= 0, "ShutdownTimeout %s must be positive", q.ShutdownTimeout)
	return errors.Join(errs...)
}

// Topology is what the consumer of q declares: the queue, its retry queues, and its dead letters.
// All of it belongs to this queue. So no retry and no dead letter of it reaches another service.
//
//	q.Exchange ─► NAME ─► handler
//	               ▲  └─► NAME.retry.30s (exchange) ─► NAME.retry.30s (queue) ─┐ after 30 s
//	               │  └─► NAME.dlx (exchange) ─► NAME.dlq (queue)              │
//	               └───── NAME.requeue (exchange) ◄────────────────────────────┘
func (q Queue) Topology() Topology {
	q = q.withDefaults()
	t := q.copyTopology()
	t.Queues = append(t.Queues, q.mainQueue())
	return t
}

// DeadLetterQueue is the name of the queue of dead letters.
func (q Queue) DeadLetterQueue() string { return q.Name + ".dlq" }

func (q Queue) deadLetterExchange() string { return q.Name + ".dlx" }
func (q Queue) requeueExchange() string    { return q.Name + ".requeue" }

// copyTopology is where copies go. Each exchange is a fanout, bound only to queues of this queue.
// So a message keeps its routing key.
func (q Queue) copyTopology() Topology {
	t := Topology{
		Exchanges: []Exchange{{Name: q.deadLetterExchange(), Kind: "fanout"}, {Name: q.requeueExchange(), Kind: "fanout"}},
		Queues: []DeclaredQueue{{
			Name:      q.DeadLetterQueue(),
			Arguments: map[string]any{"x-delivery-limit": NoDeliveryLimit},
			Bindings:  []Binding{{Exchange: q.deadLetterExchange()}},
		}},
	}
	for _, delay := range q.Retry {
		t.Exchanges = append(t.Exchanges, Exchange{Name: q.retryExchange(delay), Kind: "fanout"})
		t.Queues = append(t.Queues, q.retryQueue(delay))
	}
	return t
}

func (q Queue) mainQueue() DeclaredQueue {
	main := DeclaredQueue{
		Name:      q.Name,
		Arguments: deadLettering(q.deadLetterExchange()),
		Bindings:  []Binding{{Exchange: q.requeueExchange()}},
	}
	main.Arguments["x-delivery-limit"] = q.DeliveryLimit
	for _, topic := range q.Topics {
		main.Bindings = append(main.Bindings, Binding{Exchange: q.Exchange, Key: topic})
	}
	for _, topic := range q.FormerTopics {
		main.Former = append(main.Former, Binding{Exchange: q.Exchange, Key: topic})
	}
	return main
}

// retryQueue holds messages for one delay, and then returns them to the main queue. Each delay
// has its own queue, because messages expire only at the head of a queue.
func (q Queue) retryQueue(delay time.Duration) DeclaredQueue {
	retry := DeclaredQueue{
		Name:      q.retryExchange(delay),
		Arguments: deadLettering(q.requeueExchange()),
		Bindings:  []Binding{{Exchange: q.retryExchange(delay)}},
	}
	retry.Arguments["x-message-ttl"] = delay.Milliseconds()
	return retry
}

// deadLettering makes the broker's own dead-lettering as safe as a confirmed publish. A message
// stays in its queue until the target queues have it. It needs reject-publish, because a queue
// that drops messages from its head cannot keep them.
// https://www.rabbitmq.com/docs/quorum-queues#dead-lettering
func deadLettering(exchange string) map[string]any {
	return map[string]any{
		"x-dead-letter-exchange": exchange,
		"x-dead-letter-strategy": "at-least-once",
		"x-overflow":             "reject-publish",
	}
}

// retryExchange is the name of the exchange and of the queue of a delay. Another delay makes
// another queue, and the old queue still returns its messages.
func (q Queue) retryExchange(delay time.Duration) string {
	short := strings.Replace(delay.String(), "m0s", "m", 1) // 1m0s, 1h0m0s
	short = strings.Replace(short, "h0m", "h", 1)
	return q.Name + ".retry." + short
}
