package deadletter_test

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/notification-service/internal/deadletter/deadlettertest"
	"example.com/transactional-outbox/outbox/operate"
)

func TestMain(m *testing.M) {
	if os.Getenv(dieAt) != "" {
		replayAndDie()
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// fixture is a queue of dead letters, and an operator whose decisions are recorded in memory.
type fixture struct {
	deadlettertest.Queues
	recorder *deadlettertest.Recorder
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	return fixture{deadlettertest.New(t), new(deadlettertest.Recorder)}
}

func (f fixture) change(action operate.Action) deadletter.Change {
	return deadletter.Change{Action: action, By: operate.NewDecision("somebody", operate.Page, operate.ByIDs), Recorder: f.recorder}
}

// read returns what is in the queue.
func (f fixture) read() (letters []deadletter.DeadLetter) {
	f.Helper()
	f.Check(f.Queue().Read(f.Context(), 0, nil, func(found deadletter.Found) bool {
		letters = append(letters, found.DeadLetter)
		return true
	}))
	return letters
}

// wantLeftAndSent compares both queues with the ids of messages.
func (f fixture) wantLeftAndSent(left, sent []string) {
	f.Helper()
	gotLeft, gotSent := f.Contents(len(left), len(sent))
	if !deadlettertest.SameSet(gotLeft, left) || !deadlettertest.SameSet(gotSent, sent) {
		f.Errorf("left are %v, want %v; sent are %v, want %v", gotLeft, left, gotSent, sent)
	}
}

// ended returns a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
