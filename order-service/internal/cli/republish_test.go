package cli_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/internal/relay"
	"example.com/transactional-outbox/test/servers"
)

// lostDisk is a fixture with a broker that has lost its disk: it has an exchange and nothing
// else.
type lostDisk struct {
	fixture
	channel *amqp.Channel
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
	b.relay = relay.Config{System: "rabbitmq", Destination: "test." + rand.Text(), AppID: "order-service", ConfirmTimeout: 30 * time.Second}
	if err := channel.ExchangeDeclare(b.relay.Destination, "topic", false, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
	b.broker = func(ctx context.Context, use func(context.Context, publish.Session) error) (err error) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		return errors.Join(rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: url, Name: t.Name()}, func(ctx context.Context, s *rabbitmq.Session) error {
			defer end()
			err = use(ctx, session{s})
			return nil
		}), err)
	}
	return lostDisk{b, channel}
}

type session struct{ *rabbitmq.Session }

func (s session) NewPublisher(window int) (publish.Publisher, error) {
	return s.NewEventPublisher(window)
}

// consume binds a queue to the exchange by these keys.
func (b lostDisk) consume(keys ...string) (queue string) {
	b.Helper()
	q, err := b.channel.QueueDeclare("test."+rand.Text(), false, false, true, false, nil)
	for _, key := range keys {
		err = errors.Join(err, b.channel.QueueBind(q.Name, key, b.relay.Destination, false, nil))
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
	b.exec("UPDATE outbox_status SET traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'")
	b.publish(ids[:2]...)
	var created time.Time
	b.read(&created, "SELECT created_at FROM outbox_status WHERE id = ?", ids[0])
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
	b.publish(slices.Concat(old, new)...)
	b.exec("UPDATE outbox_status SET published_at = now() - interval '2 hours' WHERE id = ?", old[0])
	hourAgo := time.Now().Add(-time.Hour).Format(time.RFC3339)
	for line, want := range map[string][]string{
		"--since 3h":                             {old[0].String(), new[0].String(), new[1].String()},
		"--since 1h":                             {new[0].String(), new[1].String()},
		"--since " + hourAgo:                     {new[0].String(), new[1].String()},
		"--since 3h --until 1h":                  {old[0].String()},
		"--since 3h --until " + hourAgo:          {old[0].String()},
		"--since 3h --event-key order.cancelled": {new[1].String()},
		"--since 3h --after " + old[0].String():  {new[0].String(), new[1].String()},
		"--since 3h --event-key order.confirmed": nil,
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

// TestP7RepublishKeepsTheOrderOfTheVersions republishes several pages.
func TestP7RepublishKeepsTheOrderOfTheVersions(t *testing.T) {
	t.Parallel()
	b := newLostDisk(t)
	queue := b.consume("#")
	b.exec(`INSERT INTO outbox_status (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, status, published_at)
		SELECT gen_random_uuid(), 'order', o.id, v, 'order.changed', jsonb_build_object('order', o.id, 'version', v), 'published', now() - v * interval '1 minute'
		FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 201)) AS o, generate_series(3, 1, -1) AS v`)
	out, progress, err := b.run("republish", "--since", "1h")
	if err != nil || out != "603 events sent again.\n" || !strings.HasSuffix(progress, "603 of 603 events (100%)\n") {
		t.Errorf("it prints %.200q and %q, error %v", out, progress, err)
	}
	sent, newest := b.drain(queue), map[string]int{}
	for _, m := range sent {
		var event struct {
			Order   string `json:"order"`
			Version int    `json:"version"`
		}
		if err := json.Unmarshal(m.Body, &event); err != nil {
			t.Fatal(err)
		}
		if event.Version != newest[event.Order]+1 {
			t.Errorf("version %d comes after %d", event.Version, newest[event.Order])
		}
		newest[event.Order] = event.Version
	}
	if len(sent) != 603 {
		t.Errorf("%d sent, want 603", len(sent))
	}
}

// TestRepublishStopsAtAnUnroutableEventAndResumes has no queue for the last events of the second
// page.
func TestRepublishStopsAtAnUnroutableEventAndResumes(t *testing.T) {
	t.Parallel()
	b := newLostDisk(t)
	queue := b.consume("order.created")
	b.publish(b.appendMany(700)...)
	b.exec(`UPDATE outbox_status SET event_key = 'order.cancelled' WHERE id =
		(SELECT id FROM outbox_status ORDER BY id OFFSET 650 LIMIT 1)`)
	_, _, err := b.run("republish", "--since", "1h")
	if err == nil {
		t.Fatal("it says that all was sent")
	}
	for _, want := range []string{"500 of 700 events", "no queue", "order.cancelled", "start the services", "--since 20", "--until 20", "--after "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is\n%v\nwithout %q", err, want)
		}
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
func (a fakeBroker) Unblocked(ctx context.Context) error         { return ctx.Err() }
func (a fakeBroker) Close()                                      {}
func (a fakeBroker) Publish(batch []publish.Message, _ time.Duration) []publish.Result {
	return a(batch)
}

// TestP7RepublishSendsNoLaterEventAfterARefusal: an event is sent only after the order's event
// before it is confirmed.
func TestP7RepublishSendsNoLaterEventAfterARefusal(t *testing.T) {
	t.Parallel()
	for outcome, advice := range map[publish.Outcome]string{
		publish.Returned: "start the services", publish.Refused: "full", publish.Unknown: "broker runs", publish.Invalid: "broker runs",
	} {
		b := newFixture(t)
		refused, other := b.append("order.created", "order.cancelled"), b.append("order.created", "order.cancelled")
		b.publish(slices.Concat(refused, other)...)
		var sent []string
		b.broker = func(ctx context.Context, use func(context.Context, publish.Session) error) error {
			return use(ctx, fakeBroker(func(batch []publish.Message) []publish.Result {
				results := make([]publish.Result, len(batch))
				for i, m := range batch {
					sent = append(sent, m.ID)
					results[i].Outcome = publish.Confirmed
					if m.ID == refused[0].String() {
						results[i] = publish.Result{Outcome: outcome, Err: errors.New("because")}
					}
				}
				return results
			}))
		}
		_, _, err := b.run("republish", "--since", "1h")
		if err == nil || !strings.Contains(err.Error(), "0 of 4 events") || !strings.Contains(err.Error(), refused[0].String()) || !strings.Contains(err.Error(), advice) {
			t.Errorf("error %v, want that of %s with %q", err, refused[0], advice)
		}
		if slices.Contains(sent, refused[1].String()) {
			t.Errorf("version 2 left although version 1 was not taken: %v", sent)
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
