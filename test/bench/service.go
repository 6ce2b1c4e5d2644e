package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/servicelog"
	"example.com/transactional-outbox/test/suite"
)

// service is a running order-service or notification-service.
type service struct {
	name    string
	process *process.Process
	log     string
}

const (
	orderService        = "order-service"
	notificationService = "notification-service"
)

// serve starts a command of a service with additional settings, and returns when it has a session
// with the broker.
func (b *bench) serve(ctx context.Context, name, command string, d database, settings ...string) (service, error) {
	s := service{name: name, log: filepath.Join(b.folder, b.newName()+".log")}
	program := exec.Command(filepath.Join(b.folder, name), command) //nolint:gosec,noctx // our own program; end stops it
	program.Env = []string{
		"APP_ENV=demo", "DATABASE_URL=" + d.url, "AMQP_URL=" + d.broker,
		"OPS_ADDR=127.0.0.1:0", "HTTP_ADDR=127.0.0.1:0",
	}
	program.Env = append(program.Env, settings...)
	if b.Telemetry {
		program.Env = append(program.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+b.collector.URL)
	}
	var err error
	if s.process, err = process.Start(program, process.WithParent, s.log); err != nil {
		return s, err
	}
	if _, err := s.logged(ctx, servicelog.ConnectedToBroker); err != nil {
		s.end() //nolint:contextcheck // cleanup must also run after ctx has ended
		return s, err
	}
	return s, nil
}

// end sends SIGTERM and waits for the end of the process.
func (s service) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.process.End(ctx, syscall.SIGTERM); err != nil {
		suite.Progress("%s: %v", s.name, err)
	}
	_ = os.Remove(s.log)
}

// logged waits for the first log line with this message.
func (s service) logged(ctx context.Context, message string) (servicelog.Line, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	l, err := servicelog.Await(ctx, s.process, s.log, message)
	if err != nil {
		return l, fmt.Errorf("%s: %w", s.name, err)
	}
	return l, nil
}

// residentMiB returns the resident memory of the process.
func (s service) residentMiB() (float64, error) {
	p, err := procfs.NewProc(s.process.PID)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	return float64(stat.ResidentMemory()) / (1 << 20), err
}
