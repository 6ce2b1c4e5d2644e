package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
)

func TestOnlyOneCommandChangesTheStack(t *testing.T) {
	first := newStack(t)
	must(t, first.open(true))
	second := &stack{root: first.root, log: t.Output()}
	if err := second.open(true); err == nil {
		t.Error("two commands change the stack at the same time")
	}
	must(t, second.open(false))
	must(t, first.lock.Close())
	must(t, second.open(true))
	must(t, second.lock.Close())
}

func TestABrokenStateIsNamed(t *testing.T) {
	s := newStack(t)
	must(t, s.save())
	info, err := os.Stat(s.path("state.json"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file with passwords has mode %v", info.Mode())
	}
	must(t, os.WriteFile(s.path("state.json"), []byte(`{"services": [`), 0o600))
	if err := s.open(false); err == nil || !strings.Contains(err.Error(), s.path("state.json")) {
		t.Errorf("a broken state: %v", err)
	}
}

// A pid of the state may belong to another process, after a restart of the machine for instance.
func TestOnlyRecordedProcessesAreEnded(t *testing.T) {
	for _, signal := range []string{"stop", "kill", "down"} {
		s := newStack(t)
		mine, other := startSleep(t), startSleep(t)
		s.state.Services["order-service"] = mine.ID
		s.state.Services["notification-service"] = process.ID{PID: other.PID, Started: "before the pid was recycled"}
		must(t, commands[signal].run(s, t.Context(), []string{"order-service"}))
		if mine.Alive() {
			t.Errorf("%s: it still runs", signal)
		}
		if signal != "down" {
			must(t, s.stop(t.Context(), []string{"notification-service"}))
		}
		if !other.Alive() {
			t.Errorf("%s: another process has ended", signal)
		}
	}
}

func TestARunningServiceIsNotStartedAgain(t *testing.T) {
	s := newStack(t)
	mine := startSleep(t)
	s.state.Services["order-service"] = mine.ID
	must(t, s.start(t.Context(), []string{"order-service"}))
	if s.state.Services["order-service"] != mine.ID {
		t.Error("a second one was started")
	}
}

func TestOnlyOurServersAreStoppedAndStarted(t *testing.T) {
	s := newStack(t)
	s.state.Servers[rabbitMQ.name] = "amqp://guest:guest@127.0.0.1:5672/"
	for name, want := range map[string]error{
		"rabbitmq": errNotStarted, "RabbitMQ": errNotStarted, "postgresql": errNotUp, "order-service": errNotUp,
	} {
		if err := s.stop(t.Context(), []string{name}); !errors.Is(err, want) {
			t.Errorf("stop %s: %v, want %v", name, err, want)
		}
		if err := s.start(t.Context(), []string{name}); !errors.Is(err, want) {
			t.Errorf("start %s: %v, want %v", name, err, want)
		}
	}
}

// movedServer is a server whose former port is taken.
type movedServer struct{ privateServer }

func (movedServer) Running() bool { return false }

func (movedServer) Start(context.Context) error { return nil }

func (movedServer) URL(string) string { return "amqp://now" }

func TestAServerOnAnotherPortIsReported(t *testing.T) {
	s := newStack(t)
	known := kinds
	t.Cleanup(func() { kinds = known })
	kinds = []kind{{name: "moving", open: func(string, []string) (privateServer, error) { return movedServer{}, nil }}}
	s.state.Private["moving"], s.state.Servers["moving"] = t.TempDir(), "amqp://before"
	if err := s.start(t.Context(), []string{"moving"}); err == nil || !strings.Contains(err.Error(), "make demo") {
		t.Errorf("services that use its former port: %v", err)
	}
}

func TestATakenPortIsReported(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	svc := service{name: "order-service", api: servers.FreeAddress(t), ops: listener.Addr().String()}
	if err := svc.requireFree(); err == nil || !strings.Contains(err.Error(), svc.ops) {
		t.Errorf("a taken port gave %v", err)
	}
	must(t, service{api: svc.api}.requireFree())
}

func TestAFailedStartIsReportedWithTheLog(t *testing.T) {
	s := newStack(t)
	svc := service{name: "order-service", ops: "127.0.0.1:1"}
	p, err := process.Start(exec.Command("echo", "DATABASE_URL is missing"), process.Detached, s.logPath(svc))
	must(t, err)
	must(t, p.Wait(t.Context()))
	if err := s.awaitReady(t.Context(), svc, p); err == nil || !strings.Contains(err.Error(), "DATABASE_URL is missing") {
		t.Errorf("the error is %v", err)
	}
}

// newStack returns a stack in a folder that is accepted as the repository's root.
func newStack(t *testing.T) *stack {
	s := &stack{root: t.TempDir(), out: t.Output(), log: t.Output()}
	must(t, os.MkdirAll(filepath.Join(s.root, "scripts"), 0o700))
	must(t, os.WriteFile(filepath.Join(s.root, "scripts", "stack"), nil, 0o600))
	must(t, s.open(false))
	return s
}

func startSleep(t *testing.T) *process.Process {
	p, err := process.Start(exec.Command("sleep", "1h"), process.WithParent, filepath.Join(t.TempDir(), "log"))
	must(t, err)
	t.Cleanup(func() { _ = p.End(context.WithoutCancel(t.Context()), 9) })
	return p
}

var must = check.Must // many lines have it

func TestShowWaitsForWhatMoves(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		event
		onItsWay, moves bool
	}{
		{event{Status: "published", Published: &now, Sent: &now, Email: "sent"}, false, false},
		{event{Status: "published", Published: &now, Email: "superseded"}, false, false},
		{event{Status: "published", Published: &now, Email: "pending"}, true, true},
		{event{Status: "failed"}, true, false},
		{event{Status: "published", Published: &now, Email: "discarded"}, true, false},
	} {
		if test.event.onItsWay() != test.onItsWay || test.event.moves() != test.moves {
			t.Errorf("%+v", test)
		}
	}
}
