package page

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers"
)

// run runs the numbers' session until the end of the test.
func run(t *testing.T, n *numbers) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- n.queues.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func count(t *testing.T, n *numbers) (page.Numbers, map[string]page.Node) {
	t.Helper()
	counted, err := n.count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]page.Node{}
	for _, node := range counted.Nodes {
		byName[node.Name] = node
	}
	return counted, byName
}

// declare makes a queue with messages, which is deleted at the end of the test.
func declare(t *testing.T, url, queue string, messages int) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare(queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = channel.QueueDelete(queue, false, false, false) })
	for range messages {
		confirm, err := channel.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, true, false, amqp.Publishing{})
		if err != nil {
			t.Fatal(err)
		}
		if confirmed, err := confirm.WaitContext(t.Context()); err != nil || !confirmed {
			t.Fatalf("confirmed %v, error %v", confirmed, err)
		}
	}
}

func dependencies(t *testing.T) Dependencies {
	t.Helper()
	db, _ := postgrestest.Migrated(t, migrations.Schema)
	prefix := "page-test-" + servers.FreeAddress(t)
	return Dependencies{
		DB: db, Broker: rabbitmq.Config{URL: servers.BrokerURL(t), Name: t.Name()}, WaitsFor: func() []string { return []string{"the mail server"} },
		Queue: prefix, DeadLetters: prefix + ".dlq", Retries: []string{prefix + ".retry.30s", prefix + ".retry.5m"},
	}
}

func TestTheOverviewCountsQueuesAndEMails(t *testing.T) {
	t.Parallel()
	d := dependencies(t)
	for queue, messages := range map[string]int{d.Queue: 3, d.DeadLetters: 2, d.Retries[0]: 1} {
		declare(t, d.Broker.URL, queue, messages)
	}
	err := d.DB.InTx(t.Context(), func(tx pgx.Tx) error {
		return postgres.Write(t.Context(), tx, "", "INSERT INTO processed_messages (message_id) SELECT gen_random_uuid() FROM generate_series(1, 20)", nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	n := newNumbers(d)
	run(t, n)
	counted, byName := count(t, n)
	for byName["queue"].Note == noBroker && t.Context().Err() == nil { // the session may need more than a second
		counted, byName = count(t, n)
	}
	for name, want := range map[string]int64{"queue": 3, "dead": 2, "retry.30s": 1, "retry.5m": page.Unknown, "consumed": 20, "emailed": 0} {
		if got := byName[name].Count; got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if byName["consumed"].PerSecond != 2 || byName["dead"].Level != page.Bad || byName["retry.5m"].Note == "" {
		t.Errorf("the nodes are %+v", byName)
	}
	if !slices.Equal(counted.Gates, []string{"the consumer waits for the mail server"}) {
		t.Errorf("the gates are %q", counted.Gates)
	}
}

func TestWithoutABrokerTheOtherNumbersAreShown(t *testing.T) {
	t.Parallel()
	d := dependencies(t)
	d.Broker.URL = "amqp://x:x@" + servers.FreeAddress(t) + "/"
	n := newNumbers(d)
	run(t, n)
	_, byName := count(t, n)
	if byName["queue"].Count != page.Unknown || byName["queue"].Note != noBroker || byName["consumed"].Note != lastHour {
		t.Errorf("the nodes are %+v", byName)
	}
}

// TestASilentBrokerDoesNotHideTheOtherNumbers: the overview waits less than the session does.
func TestASilentBrokerDoesNotHideTheOtherNumbers(t *testing.T) {
	t.Parallel()
	d := dependencies(t)
	declare(t, d.Broker.URL, d.Queue, 1)
	proxy, through := servers.ProxyFor(t, d.Broker.URL)
	d.Broker.URL = through
	n := newNumbers(d)
	run(t, n)
	_, byName := count(t, n)
	for byName["queue"].Count != 1 && t.Context().Err() == nil {
		_, byName = count(t, n)
	}
	proxy.Stall()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // the session waits for 10 s
	defer cancel()
	counted, err := n.count(ctx)
	if err != nil || ctx.Err() != nil || counted.Nodes[0].Note != noBroker || counted.Nodes[1].Note != lastHour {
		t.Errorf("%+v, errors %v and %v", counted, err, ctx.Err())
	}
	proxy.Resume()
}

func TestWithoutADatabaseTheQueuesAreShown(t *testing.T) {
	t.Parallel()
	d := dependencies(t)
	declare(t, d.Broker.URL, d.Queue, 1)
	db, err := page.OpenDatabase(context.WithoutCancel(t.Context()), "postgres://x:x@"+servers.FreeAddress(t)+"/x")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	d.DB = db
	n := newNumbers(d)
	run(t, n)
	counted, byName := count(t, n)
	for byName["queue"].Note == noBroker && t.Context().Err() == nil {
		counted, byName = count(t, n)
	}
	if byName["queue"].Count != 1 || byName["consumed"].Count != page.Unknown || byName["consumed"].Note != noDatabase {
		t.Errorf("the nodes are %+v", byName)
	}
	if !slices.Contains(counted.Gates, databaseGate) {
		t.Errorf("the gates are %q", counted.Gates)
	}
}
