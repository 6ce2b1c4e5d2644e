package dlq_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/outboxcli/dlq"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/operate"
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
	{"removed", true, false, 2, 1},
	{"changed", true, false, 3, 0},
	{"finished", true, true, 3, 0},
}

// stepRecorder does something around the records of a decision.
type stepRecorder struct {
	dlq.Recorder
	at func(step string)
}

func (r stepRecorder) Begin(ctx context.Context, by operate.By, action operate.Action, items []string) (uuid.UUID, error) {
	id, err := r.Recorder.Begin(ctx, by, action, items)
	r.at("recorded")
	return id, err
}

func (r stepRecorder) Finish(ctx context.Context, id uuid.UUID, done int) error {
	r.at("changed")
	err := r.Recorder.Finish(ctx, id, done)
	r.at("finished")
	return err
}

// replayAt replays all, and does something at a step of the message with this id.
func replayAt(ctx context.Context, q queues, recorder dlq.Recorder, step, id string, do func()) error {
	q.Hooks.at(step, id, do)
	action, err := dlq.Parse("shop", []string{"replay", "--all"}, io.Discard)
	if err != nil {
		return err
	}
	return action(ctx, dlq.Dependencies{
		Queue: q.Letters, Open: q.open(), Out: io.Discard, Progress: io.Discard, By: "somebody",
		Database: func(_ context.Context, use func(dlq.Recorder) error) error {
			return use(stepRecorder{recorder, func(at string) {
				if at == step {
					do()
				}
			}})
		},
	})
}

// dieAt makes this binary a replay that ends at a step: "removed B".
const dieAt = "DLQ_DIE_AT"

// replayAndDie is the other process.
func replayAndDie() {
	step, id, _ := strings.Cut(os.Getenv(dieAt), " ")
	ctx := context.Background()
	q := queues{TB: &testing.T{}, URL: os.Args[1], Service: os.Args[2], Hooks: new(hooks)}
	db, err := postgres.Open(ctx, os.Args[3], 1)
	if err == nil {
		err = replayAt(ctx, q, operate.NewLog(db.Pool()), step, id, func() {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		})
	}
	panic(err) // it should be dead by now
}

// decisions is a database that records decisions.
func decisions(t *testing.T) (*postgres.DB, string) {
	t.Helper()
	url := servers.Database(t)
	db, err := postgres.Open(t.Context(), url, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := outbox.Migrate(t.Context(), db.Pool()); err != nil {
		t.Fatal(err)
	}
	return db, url
}

func TestKilledAtAnyStepTheRecordAndTheQueueTellTheTruth(t *testing.T) {
	t.Parallel()
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			q := newQueues(t)
			db, dbURL := decisions(t)
			ids := q.AddMany(3)
			replaying := exec.CommandContext(t.Context(), os.Args[0], q.URL, q.Service, dbURL)
			replaying.Env = append(os.Environ(), dieAt+"="+step.name+" "+ids[1])
			output, err := replaying.CombinedOutput()
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("it ended with %v:\n%s", err, output)
			}
			decision := wantRecord(t, operate.NewLog(db.Pool()), step, ids)
			wantNothingLost(q, step, ids, decision)
		})
	}
}

// TestCutOffAfterTheLastRemovalTheRecordHasNoEnd: the broker may not have removed it.
func TestCutOffAfterTheLastRemovalTheRecordHasNoEnd(t *testing.T) {
	t.Parallel()
	q := newQueues(t)
	db, _ := decisions(t)
	ids := q.AddMany(3)
	proxy, through := servers.ProxyFor(t, q.URL)
	q.URL = through
	if err := replayAt(t.Context(), q, operate.NewLog(db.Pool()), "removed", ids[2], proxy.Cut); err == nil {
		t.Error("there is no error")
	}
	wantRecord(t, operate.NewLog(db.Pool()), step{recorded: true}, ids)
}

// wantRecord returns the decision, or uuid.Nil if there is none, as the step wants it.
func wantRecord(t *testing.T, log *operate.Log, step step, ids []string) uuid.UUID {
	t.Helper()
	all, err := log.List(t.Context(), uuid.Nil, 10)
	if err != nil || (len(all) == 1) != step.recorded {
		t.Fatalf("%d decisions, error %v", len(all), err)
	}
	if len(all) == 0 {
		return uuid.Nil
	}
	batches, err := log.Of(t.Context(), ids, 10)
	if err != nil || len(batches) != 1 || !slices.Equal(batches[0].Items, ids) {
		t.Fatalf("the batches are %+v, error %v", batches, err)
	}
	if b := batches[0]; (b.FinishedAt != nil) != step.finished || step.finished && *b.Done != 3 {
		t.Errorf("the record is %+v", b)
	}
	return all[0].Decision
}

// wantNothingLost waits until each message is in one of the queues, or in both. The copies say
// which decision made them.
func wantNothingLost(q queues, step step, ids []string, decision uuid.UUID) {
	q.Helper()
	copies := q.Drain(q.Service, step.sent)
	for _, c := range copies {
		if c.Headers["x-operator-decision"] != decision.String() {
			q.Errorf("%s is sent with %v", c.MessageId, c.Headers)
		}
	}
	sent, left := idsOf(copies), idsOf(q.Drain(q.Letters, step.left))
	if len(sent) > step.sent+1 || len(left) > step.left+1 {
		q.Errorf("left are %v, and sent %v of %v", left, sent, ids)
	}
	for _, id := range ids {
		if !slices.Contains(sent, id) && !slices.Contains(left, id) {
			q.Errorf("%s is lost: left are %v, and sent %v", id, left, sent)
		}
	}
}
