package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

func TestTakenPortIsReportedWithItsHolder(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	svc := service{name: "order-service", api: servers.FreeAddress(t), ops: listener.Addr().String()}
	err = svc.requireFree()
	if err == nil || !strings.Contains(err.Error(), "stack.test") && !strings.Contains(err.Error(), "another process") {
		t.Errorf("a taken port gave %v", err)
	}
	must(t, service{api: servers.FreeAddress(t), ops: servers.FreeAddress(t)}.requireFree())
}

func TestConfigurationOfTheServices(t *testing.T) {
	t.Setenv("SMTP_URL", "smtp://mail")
	t.Setenv("DATABASE_URL", "another")
	s := newStack(t)
	s.root = "/checkout"
	order := s.program(t.Context(), services[0], "postgres://o", "amqp://b", "serve")
	for _, want := range []string{
		"APP_ENV=demo", "DATABASE_URL=postgres://o", "AMQP_URL=amqp://b",
		"HTTP_ADDR=127.0.0.1:4000", "OPS_ADDR=127.0.0.1:4100", "SMTP_URL=smtp://mail",
	} {
		if !slices.Contains(order.Environ(), want) {
			t.Errorf("order-service does not get %s", want)
		}
	}
	if want := "/checkout/build/bin/order-service"; order.Path != want {
		t.Errorf("it starts %s, want %s", order.Path, want)
	}
}

func TestReady(t *testing.T) {
	var ready atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	svc := service{ops: server.Listener.Addr().String()}
	if err := svc.probe(shortContext(t)); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a service that is not ready: %v", err)
	}
	ready.Store(true)
	must(t, svc.probe(shortContext(t)))
}

func TestAFailedStartIsReportedWithTheLog(t *testing.T) {
	s := newStack(t)
	must(t, s.open(fakeCheckout(t), false))
	svc := service{name: "order-service", ops: unusedAddress}
	p, err := process.Start(exec.Command("echo", "DATABASE_URL is missing"), process.Detached, s.logPath(svc))
	must(t, err)
	must(t, p.Wait(shortContext(t)))
	if err := s.awaitReady(shortContext(t), svc, p); err == nil || !strings.Contains(err.Error(), "DATABASE_URL is missing") {
		t.Errorf("the error is %v", err)
	}
}

func TestStopEndsOnlyRecordedProcesses(t *testing.T) {
	s := newStack(t)
	must(t, s.open(fakeCheckout(t), true))
	defer func() { _ = s.lock.Close() }()
	mine, other := startSleep(t), startSleep(t)
	s.state.Services["order-service"] = mine.ID
	s.state.Services["notification-service"] = process.ID{PID: other.PID, Started: "before the pid was recycled"}
	must(t, s.stopServices(shortContext(t)))
	if mine.Alive() || !other.Alive() {
		t.Errorf("the recorded process is alive: %t, the other one: %t", mine.Alive(), other.Alive())
	}
	recorded, err := readState(s.path("state.json"))
	must(t, err)
	if len(recorded.Services) > 0 {
		t.Errorf("still recorded: %v", recorded.Services)
	}
}

func TestDownTwice(t *testing.T) {
	root := fakeCheckout(t)
	for range 2 {
		s := newStack(t)
		must(t, s.open(root, true))
		must(t, s.down(shortContext(t), nil))
		must(t, s.lock.Close())
	}
}

func startSleep(t *testing.T) *process.Process {
	p, err := process.Start(exec.Command("sleep", "60"), process.WithParent, filepath.Join(t.TempDir(), "log"))
	must(t, err)
	t.Cleanup(func() { _ = p.End(shortContext(t), 9) })
	return p
}
