package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestKillEndsOneServiceAtOnce(t *testing.T) {
	s := newStack(t)
	mine, other := startSleep(t), startSleep(t)
	s.state.Services[services[0].name], s.state.Services[services[1].name] = mine.ID, other.ID
	must(t, s.kill(shortContext(t), []string{services[0].name}))
	if mine.Alive() || !other.Alive() {
		t.Errorf("the killed service is alive: %t, the other one: %t", mine.Alive(), other.Alive())
	}
	if err := s.kill(shortContext(t), []string{services[0].name}); err == nil {
		t.Error("it was killed twice")
	}
}

func TestStopEndsOneServiceAndStartLeavesTheOtherAlone(t *testing.T) {
	s := newStack(t)
	mine, other := startSleep(t), startSleep(t)
	s.state.Services[services[0].name], s.state.Services[services[1].name] = mine.ID, other.ID
	must(t, s.stop(shortContext(t), []string{services[0].name}))
	if mine.Alive() {
		t.Error("it still runs")
	}
	must(t, s.start(shortContext(t), []string{services[1].name})) // already running
	if s.state.Services[services[1].name] != other.ID {
		t.Error("a second one was started")
	}
}

func TestOnlyOurServersAreStoppedAndStarted(t *testing.T) {
	s := newStack(t)
	s.state.Found[rabbitMQ.name] = "amqp://guest:xxxxx@127.0.0.1:5672/"
	for name, want := range map[string]error{
		"rabbitmq": errNotStarted, "RabbitMQ": errNotStarted, "postgresql": errNotUp, "order-service": errNotUp,
	} {
		if err := s.stop(shortContext(t), []string{name}); !errors.Is(err, want) {
			t.Errorf("stop %s: %v, want %v", name, err, want)
		}
		if err := s.start(shortContext(t), []string{name}); !errors.Is(err, want) {
			t.Errorf("start %s: %v, want %v", name, err, want)
		}
	}
	if err := s.kill(shortContext(t), []string{"grafana"}); err == nil || !strings.Contains(err.Error(), "grafana") {
		t.Errorf("kill grafana: %v", err)
	}
}

// movedServer is a server whose port is taken when it starts.
type movedServer struct {
	privateServer
	started bool
}

func (*movedServer) Running() bool { return false }

func (m *movedServer) Start(context.Context) error {
	m.started = true
	return nil
}

func (m *movedServer) URL(string) string { return fmt.Sprintf("amqp://started-%t", m.started) }

func TestAServerOnAnotherPortIsFoundThere(t *testing.T) {
	s := newStack(t)
	must(t, s.open(fakeCheckout(t), false))
	known := kinds
	t.Cleanup(func() { kinds = known })
	kinds = []kind{{name: "moving", open: func(string) (privateServer, error) { return &movedServer{}, nil }}}
	address, err := s.startIn(shortContext(t), t.TempDir(), kinds[0])
	must(t, err)
	if address != "amqp://started-true" {
		t.Errorf("its address is %s", address)
	}
	must(t, s.start(shortContext(t), []string{"moving"})) // no service uses it
	s.state.Servers["moving"] = "amqp://started-false"
	if err := s.start(shortContext(t), []string{"moving"}); err == nil || !strings.Contains(err.Error(), "make demo") {
		t.Errorf("services that use its former port: %v", err)
	}
}

func TestPrivateServersIgnoreOthers(t *testing.T) {
	t.Setenv(privateOnly, "1")
	for _, k := range kinds {
		t.Setenv(k.variable, os.Getenv(k.testVariable))
		if address := newStack(t).find(shortContext(t), k); address != "" {
			t.Errorf("found %s", address)
		}
	}
}

func TestRunPassesArgumentsAndConfiguration(t *testing.T) {
	s := newStack(t)
	must(t, s.open(fakeCheckout(t), false))
	var out bytes.Buffer
	s.out = &out
	s.state.Services["order-service"] = startSleep(t).ID
	s.state.Databases["order-service"], s.state.Servers[rabbitMQ.name] = "postgres://o", "amqp://b"
	must(t, os.MkdirAll(filepath.Join(s.root, "build/bin"), 0o750))
	program := "#!/bin/sh\necho \"$@\" $DATABASE_URL $AMQP_URL\n[ $2 != fail ]\n"
	must(t, os.WriteFile(filepath.Join(s.root, "build/bin/order-service"), []byte(program), 0o700))
	must(t, s.runCommand(shortContext(t), []string{"order-service", "outbox", "list", "--json"}))
	if want := "outbox list --json postgres://o amqp://b\n"; out.String() != want {
		t.Errorf("it ran with %q, want %q", out.String(), want)
	}
	if err := s.runCommand(shortContext(t), []string{"order-service", "outbox", "fail"}); err == nil {
		t.Error("its failure was ignored")
	}
}

func TestRunTakesAnyNumberOfArguments(t *testing.T) {
	run := commands[slices.IndexFunc(commands, func(c command) bool { return c.name == "run" })]
	for n, want := range []bool{false, false, true, true, true} {
		if run.takes(n) != want {
			t.Errorf("it takes %d arguments: %t", n, !want)
		}
	}
}

func TestDatabasesArePrintedAsFlags(t *testing.T) {
	s := newStack(t)
	var out bytes.Buffer
	s.out = &out
	if err := s.printDatabases(t.Context(), nil); !errors.Is(err, errNotUp) {
		t.Errorf("before up: %v", err)
	}
	s.state.Servers[postgreSQL.name] = "postgres://p@h/postgres"
	must(t, s.printDatabases(t.Context(), nil))
	want := "--order-db postgres://p@h/order_service --notification-db postgres://p@h/notification_service"
	if got := strings.Join(strings.Fields(out.String()), " "); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}
