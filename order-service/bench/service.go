package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"example.com/transactional-outbox/internal/servertest/process"
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

// serve starts a command of a service, and returns when it has a session with the
// broker.
func (b *bench) serve(ctx context.Context, name, command string, d database, brokerURL string) (service, error) {
	s := service{name: name, log: filepath.Join(b.folder, b.name()+".log")}
	program := exec.Command(filepath.Join(b.folder, name), command) //nolint:gosec,noctx // our own; end asks it to end
	program.Env = []string{
		"APP_ENV=demo", "DATABASE_URL=" + d.url, "AMQP_URL=" + brokerURL,
		"OPS_ADDR=127.0.0.1:0", "HTTP_ADDR=127.0.0.1:0",
	}
	if b.Telemetry {
		program.Env = append(program.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+b.collector.URL)
	}
	var err error
	if s.process, err = process.Start(program, process.WithParent, s.log); err != nil {
		return s, err
	}
	if _, err := s.logged(ctx, "connected to the broker"); err != nil {
		s.end() //nolint:contextcheck // ends what ctx has begun, when ctx may have ended
		return s, err
	}
	return s, nil
}

// end asks for the end, and waits for it.
func (s service) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.process.End(ctx, syscall.SIGTERM); err != nil {
		progress("%s: %v", s.name, err)
	}
	_ = os.Remove(s.log)
}

// record is a line of the log.
type record struct {
	Time    time.Time
	Message string `json:"msg"`
	Address string
}

// logged waits for the first line with this message.
func (s service) logged(ctx context.Context, message string) (r record, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err = s.process.AwaitReady(ctx, func(context.Context) error {
		r, err = s.find(message)
		return err
	})
	if err != nil {
		return r, fmt.Errorf("%s: %w; its log:\n%s", s.name, err, process.LastLines(s.log))
	}
	return r, nil
}

func (s service) find(message string) (r record, err error) {
	log, err := os.Open(s.log)
	if err != nil {
		return r, err
	}
	defer func() { _ = log.Close() }()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Message == message {
			return r, nil
		}
	}
	return r, fmt.Errorf("it has not logged %q", message)
}

// residentMiB is the memory of the process that is in RAM.
func (s service) residentMiB(ctx context.Context) (float64, error) {
	output, err := exec.CommandContext(ctx, "ps", "-o", "rss=", "-p", strconv.Itoa(s.process.PID)).Output() //nolint:gosec // a number
	if err != nil {
		return 0, fmt.Errorf("ps: %w", err)
	}
	kib, err := strconv.ParseFloat(strings.TrimSpace(string(output)), 64)
	return kib / 1024, err
}
