package outboxcli

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers"
)

// step is where a replay of three messages is ended: at the second message, or at the record.
type step struct {
	name     string
	recorded bool // there is a record
	finished bool // it has an end
	sent     int  // how many messages are copied
	left     int  // how many are still dead letters
}

// steps are in the order of the replay.
var steps = []step{
	{"taken", false, false, 0, 3},
	{"recorded", true, false, 0, 3},
	{"replayed", true, false, 2, 1},
	{"changed", true, false, 3, 0},
	{"finished", true, true, 3, 0},
}

// stepping does something at a step of a replay.
type stepping struct {
	letters
	recorder
	at func(step, id string)
}

func (s stepping) Next() (rabbitmq.DeadLetter, bool, error) {
	l, ok, err := s.letters.Next()
	s.at("taken", l.ID)
	return l, ok, err
}

func (s stepping) Replay(ctx context.Context, l rabbitmq.DeadLetter, headers map[string]any) publish.Result {
	r := s.letters.Replay(ctx, l, headers)
	s.at("replayed", l.ID)
	return r
}

func (s stepping) Begin(ctx context.Context, by operate.By, action operate.Action, items []string) (uuid.UUID, error) {
	id, err := s.recorder.Begin(ctx, by, action, items)
	s.at("recorded", "")
	return id, err
}

func (s stepping) Finish(ctx context.Context, id uuid.UUID, done int) error {
	s.at("changed", "")
	err := s.recorder.Finish(ctx, id, done)
	s.at("finished", "")
	return err
}

// replayAt replays all, and does something at a step. A step of a message has its id.
func replayAt(ctx context.Context, service Service, with Servers, step, id string, do func()) error {
	e := newEnv(service, with, io.Discard, io.Discard)
	at := func(this, of string) {
		if this == step && (of == id || of == "") {
			do()
		}
	}
	openLetters, openRecorder := e.letters, e.recorder
	e.letters = func(ctx context.Context, use func(context.Context, letters) error) error {
		return openLetters(ctx, func(ctx context.Context, l letters) error { return use(ctx, stepping{letters: l, at: at}) })
	}
	e.recorder = func(ctx context.Context, use func(recorder) error) error {
		return openRecorder(ctx, func(r recorder) error { return use(stepping{recorder: r, at: at}) })
	}
	_, _, err := e.run(ctx, "dlq", "replay", "--all")
	return err
}

// dieAt makes this binary a replay that ends at a step: "replayed B".
const dieAt = "DLQ_DIE_AT"

// replayAndDie is the other process.
func replayAndDie() {
	step, id, _ := strings.Cut(os.Getenv(dieAt), " ")
	service, with := Service{Name: os.Args[1], Schema: shop.Schema}, Servers{DatabaseURL: os.Args[2], AMQPURL: os.Args[3]}
	panic(replayAt(context.Background(), service, with, step, id, func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}))
}

// queues are a service's queue, and its dead letters, at the broker.
type queues struct {
	fixture
	*amqp.Channel
}

func newQueues(t *testing.T) queues {
	t.Helper()
	q := queues{fixture: newFixture(t)}
	q.Service.Name, q.AMQPURL = "test."+rand.Text(), servers.BrokerURL(t)
	conn, err := amqp.Dial(q.AMQPURL)
	q.check(err)
	t.Cleanup(func() { _ = conn.Close() })
	q.Channel, err = conn.Channel()
	q.check(err)
	q.check(q.Confirm(false))
	for queue, exchange := range map[string]string{q.Service.Name: q.Service.Name + ".requeue", q.Service.Name + ".dlq": q.Service.Name + ".dlq"} {
		_, err := q.QueueDeclare(queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
		q.check(err)
		q.check(q.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil))
		q.check(q.QueueBind(queue, "", exchange, false, nil))
		t.Cleanup(func() {
			_ = q.ExchangeDelete(exchange, false, false)
			_, _ = q.QueueDelete(queue, false, false, false)
		})
	}
	return q
}

func (q queues) check(err error) {
	q.Helper()
	if err != nil {
		q.Fatal(err)
	}
}

// add puts dead letters into the queue, and returns their ids.
func (q queues) add(n int) (ids []string) {
	q.Helper()
	for range n {
		ids = append(ids, rand.Text())
		c, err := q.PublishWithDeferredConfirm(q.Service.Name+".dlq", "order.created", true, false, amqp.Publishing{MessageId: ids[len(ids)-1], Body: []byte("ann@example.com")})
		q.check(err)
		if !c.Wait() {
			q.Fatal("a message was not confirmed")
		}
	}
	return ids
}

// drain waits for n messages in a queue, and takes all of them.
func (q queues) drain(queue string, n int) (messages []amqp.Delivery, ids []string) {
	q.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		d, ok, err := q.Get(queue, true)
		q.check(err)
		switch {
		case ok:
			messages, ids = append(messages, d), append(ids, d.MessageId)
		case len(messages) >= n:
			return messages, ids
		case time.Now().After(deadline):
			q.Fatalf("%d messages in %s, want %d", len(messages), queue, n)
		}
	}
}

func TestKilledAtAnyStepTheRecordAndTheQueueTellTheTruth(t *testing.T) {
	t.Parallel()
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			q := newQueues(t)
			ids := q.add(3)
			replaying := exec.CommandContext(t.Context(), os.Args[0], q.Service.Name, q.DatabaseURL, q.AMQPURL)
			replaying.Env = append(os.Environ(), dieAt+"="+step.name+" "+ids[1])
			output, err := replaying.CombinedOutput()
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("it ended with %v:\n%s", err, output)
			}
			q.wantNothingLost(step, ids, q.wantRecord(step, ids))
		})
	}
}

// TestCutOffAfterTheLastRemovalTheRecordHasNoEnd: the broker may not have removed it.
func TestCutOffAfterTheLastRemovalTheRecordHasNoEnd(t *testing.T) {
	t.Parallel()
	q := newQueues(t)
	ids := q.add(3)
	proxy, through := servers.ProxyFor(t, q.AMQPURL)
	q.AMQPURL = through
	if err := replayAt(t.Context(), q.Service, q.Servers, "replayed", ids[2], proxy.Cut); err == nil {
		t.Error("there is no error")
	}
	q.wantRecord(step{recorded: true}, ids)
}

// wantRecord returns the decision, or uuid.Nil if there is none, as the step wants it.
func (q queues) wantRecord(step step, ids []string) uuid.UUID {
	q.Helper()
	all := q.decisions()
	if (len(all) == 1) != step.recorded {
		q.Fatalf("%d decisions", len(all))
	}
	if len(all) == 0 {
		return uuid.Nil
	}
	batches, err := operate.NewLog(q.db.Pool()).Of(q.Context(), ids, 10)
	if err != nil || len(batches) != 1 || !slices.Equal(batches[0].Items, ids) {
		q.Fatalf("the batches are %+v, error %v", batches, err)
	}
	if b := batches[0]; (b.FinishedAt != nil) != step.finished || step.finished && *b.Done != 3 {
		q.Errorf("the record is %+v", b)
	}
	return all[0].Decision
}

// wantNothingLost waits until each message is in one of the queues, or in both. The copies say
// which decision made them.
func (q queues) wantNothingLost(step step, ids []string, decision uuid.UUID) {
	q.Helper()
	copies, sent := q.drain(q.Service.Name, step.sent)
	for _, c := range copies {
		if c.Headers["x-operator-decision"] != decision.String() {
			q.Errorf("%s is sent with %v", c.MessageId, c.Headers)
		}
	}
	_, left := q.drain(q.Service.Name+".dlq", step.left)
	if len(sent) > step.sent+1 || len(left) > step.left+1 {
		q.Errorf("left are %v, and sent %v of %v", left, sent, ids)
	}
	for _, id := range ids {
		if !slices.Contains(sent, id) && !slices.Contains(left, id) {
			q.Errorf("%s is lost: left are %v, and sent %v", id, left, sent)
		}
	}
}

// TestDeadLettersAtABroker are given back in their order, unless they are changed.
func TestDeadLettersAtABroker(t *testing.T) {
	t.Parallel()
	q := newQueues(t)
	ids := q.add(100) // more than an Erlang map keeps in order
	databaseURL := q.DatabaseURL
	q.DatabaseURL = "postgres://shop@127.0.0.1:1/shop" // these need no database
	for _, line := range []string{"list", "show " + ids[7], "discard --all --dry-run", "list --reason none", "list --json"} {
		out, _, err := q.run(t.Context(), append([]string{"dlq"}, strings.Fields(line)...)...)
		if err != nil || line == "list --json" && !slices.Equal(idsOf(t, out), ids) {
			t.Errorf("%s: error %v\n%s", line, err, out)
		}
	}
	if _, _, err := q.run(t.Context(), "dlq", "discard", "--all"); status(err) != 1 || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("without a database: error %v", err)
	}
	var shown strings.Builder
	q.Masked = true // only in events
	show, err := q.DeadLetters([]string{"show", ids[7]}, &shown)
	if err = errors.Join(err, show(t.Context(), q.Servers)); err != nil {
		t.Error(err)
	}
	wantAll(t, shown.String(), ids[7], "body\nann@example.com\n")
	q.DatabaseURL = databaseURL
	if out, _, err := q.run(t.Context(), "dlq", "discard", ids[0], ids[99]); err != nil || out != "2 discarded.\n" {
		t.Errorf("it prints %q, error %v", out, err)
	}
	if _, left := q.drain(q.Service.Name+".dlq", 98); !slices.Equal(slices.Sorted(slices.Values(left)), slices.Sorted(slices.Values(ids[1:99]))) {
		t.Errorf("left are %v", left)
	}
	q.Service.Name += ".missing"
	if _, _, err := q.run(t.Context(), "dlq", "list"); status(err) != 1 || !strings.Contains(err.Error(), "start the service "+q.Service.Name) {
		t.Errorf("without a queue: error %v", err)
	}
}

func TestACommandGivesUpOnABrokerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	nowhere := rabbitmq.NewBroker("amqp://shop:own@127.0.0.1:1/", "outbox.events")
	use := func(context.Context, publish.Session) error {
		t.Error("there is a session")
		return nil
	}
	err := onSession(t.Context(), 100*time.Millisecond, nowhere.KeepConnected, use)
	if err == nil || !strings.Contains(err.Error(), "AMQP_URL") {
		t.Errorf("error %v, want one that names AMQP_URL", err)
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := onSession(interrupted, time.Hour, nowhere.KeepConnected, use); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted, it gives the error %v", err)
	}
}
