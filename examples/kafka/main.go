// Command kafka places an order. The relay publishes the order's two events to Kafka.
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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
)

const (
	// kafkaTopic has the events of all types. Kafka keeps the order within one partition only. With
	// a topic for each type, a consumer could get order.confirmed before order.created.
	kafkaTopic = "orders"
	calls      = 8                // messages in flight
	timeout    = 10 * time.Second // for each, less than a call of publish.Func has
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	if stop(); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "DATABASE_URL is not set"))
	if err != nil {
		return err
	}
	defer pool.Close()
	brokers := kgo.SeedBrokers(strings.Split(cmp.Or(os.Getenv("KAFKA_BROKERS"), "127.0.0.1:9092"), ",")...)
	kafka, err := kgo.NewClient(brokers, kgo.ConsumeTopics(kafkaTopic))
	if err != nil {
		return err
	}
	defer kafka.Close()
	_, err = kadm.NewClient(kafka).CreateTopic(ctx, 3, -1, nil, kafkaTopic) // -1 replicas: the default
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	p, err := newPublisher(brokers)
	if err != nil {
		return err
	}
	defer p.close()
	relay, err := outbox.NewRelay(pool, publish.Func(p.publish, publish.FuncConfig{OneDestination: true, Calls: calls}), outbox.RelayConfig{})
	_, err2 := pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, version int NOT NULL)")
	if err := errors.Join(err, err2, outbox.Migrate(ctx, pool)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	id := rand.Text()
	for _, status := range []string{"created", "confirmed"} {
		err = errors.Join(err, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return saveOrder(ctx, tx, id, status) }))
		relay.Wake() // optional: published within milliseconds instead of at the next poll
	}
	if err == nil {
		err = consume(ctx, kafka, id, 2)
	}
	cancel()
	return errors.Join(err, <-ended)
}

// saveOrder locks the order's row until the commit, so its versions are committed one by one.
func saveOrder(ctx context.Context, tx pgx.Tx, id, status string) error {
	e := outbox.Event{Topic: "order." + status, Aggregate: "order", AggregateID: id}
	e.Payload = fmt.Appendf(nil, `{"order":%q,"status":%q}`, id, status)
	if err := tx.QueryRow(ctx, `INSERT INTO orders (id, version) VALUES ($1, 1) ON CONFLICT (id)
		DO UPDATE SET version = orders.version + 1 RETURNING version`, id).Scan(&e.Version); err != nil {
		return err
	}
	return outbox.Append(ctx, tx, e)
}

// consume prints the records of one order, until there were so many.
func consume(ctx context.Context, kafka *kgo.Client, id string, records int) error {
	for records > 0 && ctx.Err() == nil {
		kafka.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if string(r.Key) == id {
				topic, id := r.Headers[0].Value, r.Headers[1].Value
				fmt.Printf("%s: key %s, offset %d, %s %s\n", r.Topic, r.Key, r.Offset, topic, id)
				records--
			}
		})
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%d records of order %s have not arrived", records, id)
	}
	return nil
}

// publisher has the clients that are free. Each publishes one record at a time: if one record of a
// partition fails, a client fails all that it holds, and each gets the error of the first.
type publisher chan *kgo.Client

func newPublisher(brokers kgo.Opt) (publisher, error) {
	p := make(publisher, calls)
	for range calls {
		client, err := kgo.NewClient(brokers,
			kgo.RequiredAcks(kgo.AllISRAcks()), // a confirmed record survives the loss of its leader
			kgo.ProducerLinger(0),              // there is no second record to wait for
			kgo.RecordRetries(1),               // after it has asked who leads; then the relay tries again
			kgo.MetadataMinAge(time.Second),    // how often it may ask
			kgo.UnknownTopicRetries(1),
			// Without it, a record in flight cannot be given up: the client would send it when the
			// broker is back, perhaps after newer ones that another relay has sent meanwhile.
			kgo.AllowIdempotentProduceCancellation(),
			kgo.ProduceRequestTimeout(timeout/4), kgo.RequestTimeoutOverhead(timeout/4), kgo.DialTimeout(timeout/4),
		)
		if err != nil {
			return nil, err
		}
		p <- client
	}
	return p, nil
}

func (p publisher) close() {
	for range calls {
		(<-p).Close()
	}
}

// publish is what the relay calls. Its error says what becomes of the event.
func (p publisher) publish(ctx context.Context, m publish.Message) error {
	client := <-p
	defer func() { p <- client }()
	attempt, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := client.ProduceSync(attempt, record(m)).FirstErr()
	if err == nil {
		return nil // confirmed by all replicas that are in sync
	}
	ping, cancel2 := context.WithTimeout(context.WithoutCancel(ctx), timeout/4)
	defer cancel2()
	var answer *kerr.Error
	switch answered := errors.As(err, &answer); {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		client.PurgeTopicsFromProducing(kafkaTopic) // a topic that is created again has another id
		return fmt.Errorf("%w: %w", publish.ErrReturned, err)
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return fmt.Errorf("%w: %w", publish.ErrTooLarge, err) // it is as large at each try
	case client.Ping(ping) != nil:
		return fmt.Errorf("%w: %w", publish.ErrNotSent, err) // no broker answers, so none has refused
	case answered && (!answer.Retriable || errors.Is(err, kerr.NotEnoughReplicas)):
		return err // the broker refuses
	default:
		return fmt.Errorf("%w: %w", publish.ErrTimeout, err) // no leader, or no answer: the record may be stored
	}
}

// record carries the fields of a message as headers. Its timestamp is the time of the publish:
// Kafka would at once delete an event that has waited for longer than the topic's retention.
func record(m publish.Message) *kgo.Record {
	r := &kgo.Record{Topic: kafkaTopic, Value: m.Body}
	if m.Group != "" { // otherwise any partition
		r.Key = []byte(m.Group)
	}
	add := func(name string, value any) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: fmt.Append(nil, value)})
	}
	add("topic", m.Topic)
	add("message-id", m.ID)
	add("content-type", m.ContentType)
	add("app-id", m.AppID)
	add("timestamp", m.Timestamp.UTC().Format(time.RFC3339Nano))
	for name, value := range m.Headers { // strings and int64
		add(name, value)
	}
	return r
}
