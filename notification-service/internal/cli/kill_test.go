package cli_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"example.com/transactional-outbox/internal/rabbitmq"
	dlqcli "example.com/transactional-outbox/notification-service/internal/cli"
	"example.com/transactional-outbox/test/servers"
)

// dieAt makes this binary a replay that ends at a step of one message: "confirmed B".
const dieAt = "DLQ_DIE_AT"

var steps = []string{"taken", "confirmed", "removed"}

// at does something at a step of a message.
func (s *hooks) at(step, id string, do func()) {
	s.taken = func(m rabbitmq.BrowsedMessage) {
		if step == "taken" && m.ID == id {
			do()
		}
	}
	s.published = func(m rabbitmq.Message, r rabbitmq.Result) rabbitmq.Result {
		if step == "confirmed" && m.ID == id {
			do()
		}
		return r
	}
	s.removed = func(m rabbitmq.BrowsedMessage) {
		if step == "removed" && m.ID == id {
			do()
		}
	}
}

// replayAndDie is the other process.
func replayAndDie() {
	step, id, _ := strings.Cut(os.Getenv(dieAt), " ")
	b := fixture{T: &testing.T{}, url: os.Args[1], queue: os.Args[2], requeue: os.Args[3]}
	b.hooks.at(step, id, func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	})
	action, err := dlqcli.Parse([]string{"replay", "--all"}, io.Discard)
	if err == nil {
		d := b.dependencies()
		d.Out, d.Progress = io.Discard, io.Discard
		err = action(context.Background(), d)
	}
	panic(err) // it should be dead by now
}

func TestKilledAtAnyStepReplayLosesNothing(t *testing.T) {
	t.Parallel()
	for _, step := range steps {
		b := newFixture(t)
		ids := b.deadLetterMany(3)
		replaying := exec.CommandContext(t.Context(), os.Args[0], b.url, b.queue, b.requeue)
		replaying.Env = append(os.Environ(), dieAt+"="+step+" "+ids[1])
		output, err := replaying.CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%s: it ended with %v:\n%s", step, err, output)
		}
		b.nothingIsLost(step, ids)
	}
}

func TestCutOffAtAnyStepReplayLosesNothingAndSaysSo(t *testing.T) {
	t.Parallel()
	for _, step := range steps {
		b := newFixture(t)
		ids := b.deadLetterMany(3)
		u, err := url.Parse(b.url)
		b.check(err)
		proxy := servers.NewProxy(t, u.Host)
		u.Host = proxy.Addr()
		b.url = u.String()
		b.hooks.at(step, ids[1], proxy.Cut)
		if _, _, err := b.run("replay", "--all"); err == nil || !strings.Contains(err.Error(), "replayed, then") {
			t.Errorf("%s: the error is %v", step, err)
		}
		b.nothingIsLost(step, ids)
	}
}

// nothingIsLost waits until each message is in one of the queues. The first one was
// replayed before the step of the second, and the third one not at all.
func (b fixture) nothingIsLost(step string, ids []string) {
	b.Helper()
	sent := messageIDs(b.drain(b.service, 1))
	left := messageIDs(b.drain(b.queue, 3-len(sent)))
	all := slices.Concat(left, sent)
	for _, id := range ids {
		if !slices.Contains(all, id) {
			b.Errorf("%s: %s is lost: left are %v, and sent %v", step, id, left, sent)
		}
	}
	if slices.Contains(left, ids[0]) || slices.Contains(sent, ids[2]) {
		b.Errorf("%s: left are %v, and sent %v of %v", step, left, sent, ids)
	}
}
