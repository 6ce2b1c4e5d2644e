package outboxcli_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers"
)

// lostDisk is a fixture with a broker that has lost its disk: it has an exchange and nothing
// else.
type lostDisk struct {
	fixture
	channel  *amqp.Channel
	exchange string
}

func newLostDisk(t *testing.T) lostDisk {
	t.Helper()
	b := newFixture(t)
	url := servers.BrokerURL(t)
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	exchange := "test." + rand.Text()
	if err := channel.ExchangeDeclare(exchange, "topic", false, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
	broker := rabbitmq.NewBroker(url, exchange)
	broker.Topology = rabbitmq.Topology{} // it is declared above
	b.destination = func(ctx context.Context, use func(context.Context, publish.Session) error) error {
		return cli.OnSession(ctx, "the broker", time.Minute, broker.KeepConnected, use)
	}
	return lostDisk{b, channel, exchange}
}

// consume binds a queue to the exchange by these keys.
func (b lostDisk) consume(keys ...string) (queue string) {
	b.Helper()
	q, err := b.channel.QueueDeclare("test."+rand.Text(), false, false, true, false, nil)
	for _, key := range keys {
		err = errors.Join(err, b.channel.QueueBind(q.Name, key, b.exchange, false, nil))
	}
	if err != nil {
		b.Fatal(err)
	}
	return q.Name
}

// drain takes all messages of the queue.
func (b lostDisk) drain(queue string) (messages []amqp.Delivery) {
	b.Helper()
	for {
		d, ok, err := b.channel.Get(queue, true)
		if err != nil {
			b.Fatal(err)
		}
		if !ok {
			return messages
		}
		messages = append(messages, d)
	}
}

func messageIDs(messages []amqp.Delivery) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.MessageId)
	}
	return ids
}

func TestRepublishSendsTheSameMessagesAgainAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := newLostDisk(t)
	queue := b.consume("#")
	ids := b.append("order.created", "order.cancelled", "order.confirmed")
	b.exec("UPDATE outbox_events SET traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'")
	b.publish(0, ids[:2]...)
	created := readAll[time.Time](b.fixture, "SELECT created_at FROM outbox_events WHERE id = $1", ids[0])[0]
	before := b.table()

	if out := b.must("republish", "--since", "1h", "--dry-run"); !strings.Contains(out, ids[1].String()) || !strings.Contains(out, "2 events would be sent again") {
		t.Errorf("a dry run prints\n%s", out)
	}
	if sent := b.drain(queue); len(sent) != 0 {
		t.Fatalf("a dry run sent %v", messageIDs(sent))
	}
	for range 2 { // it is safe to repeat
		if got := b.ids(b.must("republish", "--since", "1h", "--json")); !slices.Equal(got, ids[:2]) {
			t.Errorf("it prints %v, want %v", got, ids[:2])
		}
		sent := b.drain(queue)
		if want := []string{ids[0].String(), ids[1].String()}; !slices.Equal(messageIDs(sent), want) {
			t.Fatalf("sent %v, want %v", messageIDs(sent), want)
		}
		m := sent[0]
		if m.Type != "order.created" || m.RoutingKey != "order.created" || m.AppId != "order-service" || m.DeliveryMode != amqp.Persistent ||
			m.ContentType != "application/json" || !m.Timestamp.Equal(created.Truncate(time.Second)) || string(m.Body) != `{"quantity": 2}` ||
			m.Headers["traceparent"] != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" || len(m.Headers) != 1 {
			t.Errorf("sent %+v", m)
		}
	}
	if !slices.Equal(b.table(), before) {
		t.Error("the outbox changed")
	}
}

func TestRepublishChoosesByTimeAndKey(t *testing.T) {
	t.Parallel()
	b := newLostDisk(t)
	queue := b.consume("#")
	old, new := b.append("order.created"), b.append("order.created", "order.cancelled")
	b.publish(2, old...)
	b.publish(0, new...)
	hourAgo := time.Now().Add(-time.Hour).Format(time.RFC3339)
	for line, want := range map[string][]string{
		"--since 3h":                            {old[0].String(), new[0].String(), new[1].String()},
		"--since 1h":                            {new[0].String(), new[1].String()},
		"--since " + hourAgo:                    {new[0].String(), new[1].String()},
		"--since 3h --until 1h":                 {old[0].String()},
		"--since 3h --until " + hourAgo:         {old[0].String()},
		"--since 3h --topic order.cancelled":    {new[1].String()},
		"--since 3h --after " + old[0].String(): {new[0].String(), new[1].String()},
		"--since 3h --topic order.confirmed":    nil,
	} {
		b.must(append([]string{"republish"}, strings.Fields(line)...)...)
		if sent := messageIDs(b.drain(queue)); !sameSet(sent, want) {
			t.Errorf("%s sent %v, want %v", line, sent, want)
		}
	}
	if _, _, err := b.run("republish", "--since", "1h", "--until", "2h"); err == nil || !strings.Contains(err.Error(), "not before") {
		t.Errorf("a window that ends before it begins gives the error %v", err)
	}
	if _, _, err := b.run("republish", "--since", "1h", "--after", uuid.NewString()); err == nil || !strings.Contains(err.Error(), "leave out --after") {
		t.Errorf("an unknown --after gives the error %v", err)
	}
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// TestRepublishStopsAtAnUnroutableEventAndResumes has no queue for the last events of the second
// page.
func TestRepublishStopsAtAnUnroutableEventAndResumes(t *testing.T) {
	t.Parallel()
	b := newLostDisk(t)
	queue := b.consume("order.created")
	ids := b.appendMany(700)
	b.publish(0, ids...)
	b.exec("UPDATE outbox_events SET topic = 'order.cancelled' WHERE id = $1", ids[650])
	_, progress, err := b.run("republish", "--since", "1h")
	if err == nil {
		t.Fatal("it says that all was sent")
	}
	for _, want := range []string{"500 of 700 events", "no queue", "order.cancelled", "start the services", "--since 20", "--until 20", "--after "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is\n%v\nwithout %q", err, want)
		}
	}
	if progress != "500 of 700 events (71%)\n" {
		t.Errorf("progress %q", progress)
	}
	first := messageIDs(b.drain(queue))

	// Run the command that the error shows, after the queue is bound.
	rest := b.consume("order.cancelled")
	_, line, _ := strings.Cut(err.Error(), "order-service outbox ")
	line, _, _ = strings.Cut(line, "\n")
	if out := b.must(strings.Fields(line)...); out != "200 events sent again.\n" {
		t.Errorf("%s prints %.200q", line, out)
	}
	all := slices.Concat(first, messageIDs(b.drain(queue)), messageIDs(b.drain(rest)))
	slices.Sort(all)
	if sent := slices.Compact(all); len(sent) != 700 {
		t.Errorf("%d of 700 were sent", len(sent))
	}
}

// fakeBroker answers each batch with its function.
type fakeBroker func(batch []publish.Message) []publish.Result

func (a fakeBroker) NewPublisher(int) (publish.Publisher, error) { return a, nil }
func (a fakeBroker) Blocked() bool                               { return false }
func (a fakeBroker) Close()                                      {}
func (a fakeBroker) Publish(_ context.Context, batch []publish.Message, answer func(int, publish.Result)) {
	for i, r := range a(batch) {
		answer(i, r)
	}
}

func TestRepublishSaysWhatToDoAboutAMessageThatWasNotTaken(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := b.append("order.created", "order.cancelled")
	b.publish(0, ids...)
	for outcome, advice := range map[publish.Outcome]string{
		publish.Returned: "start the services", publish.Refused: "full", publish.Unknown: "broker runs", publish.Invalid: "broker runs",
	} {
		b.destination = func(ctx context.Context, use func(context.Context, publish.Session) error) error {
			return use(ctx, fakeBroker(func(batch []publish.Message) []publish.Result {
				return []publish.Result{{Outcome: outcome, Err: errors.New("because of " + batch[0].AppID)}}
			}))
		}
		_, _, err := b.run("republish", "--since", "1h")
		for _, want := range []string{"0 of 2 events", ids[0].String() + " (order.created) was not taken: because of order-service; ", advice} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, without %q", err, want)
			}
		}
	}
}

func TestRepublishOfNothingSaysWhy(t *testing.T) {
	t.Parallel()
	b := newFixture(t) // it fails the test if the command connects
	if out := b.must("republish", "--since", "1h"); !strings.Contains(out, "OUTBOX_RETENTION") {
		t.Errorf("it prints %q", out)
	}
}
