package dlq_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/cli/clitest"
	"example.com/transactional-outbox/internal/outboxcli/dlq"
)

func TestMain(m *testing.M) {
	if os.Getenv(dieAt) != "" {
		replayAndDie()
	}
	slog.SetDefault(slog.New(slog.NewJSONHandler(&logged, nil)))
	goleak.VerifyTestMain(m)
}

// logged is the log of all tests; each looks for its own ids in it.
var logged clitest.Log

// fixture is an operator with a dead-letter queue of the test's own.
type fixture struct {
	queues
	recorder *recorder
	database dlq.Database
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	b := fixture{queues: newQueues(t), recorder: new(recorder)}
	b.database = func(_ context.Context, use func(dlq.Recorder) error) error { return use(b.recorder) }
	return b
}

func (b fixture) dependencies() dlq.Dependencies {
	return dlq.Dependencies{Queue: b.Letters, Open: b.open(), By: "somebody", Database: b.database}
}

// run runs a command line, and returns its stdout and stderr.
func (b fixture) run(args ...string) (out, progress string, err error) {
	b.Helper()
	return b.runIn(b.Context(), args...)
}

func (b fixture) runIn(ctx context.Context, args ...string) (out, progress string, err error) {
	b.Helper()
	var printed, reported bytes.Buffer
	action, err := dlq.Parse("shop", args, &printed)
	if err == nil {
		d := b.dependencies()
		d.Out, d.Progress = &printed, &reported
		err = action(ctx, d)
	}
	return printed.String(), reported.String(), err
}

// must is run for a command that must succeed.
func (b fixture) must(args ...string) (out string) {
	b.Helper()
	out, _, err := b.run(args...)
	if err != nil {
		b.Fatalf("%q: %v", args, err)
	}
	return out
}

// ids are those of the objects that --json printed, in their order.
func (b fixture) ids(out string) []string {
	b.Helper()
	return clitest.IDs[string](b, out)
}
