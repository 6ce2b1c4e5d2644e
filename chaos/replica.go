package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/transactional-outbox/chaos/checker"
	"example.com/transactional-outbox/internal/servertest/process"
)

// replica is one process of a service, and its successors.
type replica struct {
	name     string // for people: order-service 1
	program  string // its path
	command  string // serve
	settings []string
	ready    string // what it logs when it works
	log      string // a prefix: each process has its own

	mu      sync.Mutex
	process *process.Process
	starts  int
	address string // of its API, while it lives
	hidden  bool   // from the load
	asked   bool   // to end, one way or the other
}

// patience is how long anything may take that must happen. It bounds a failure; no
// promise rests on it.
const patience = 90 * time.Second

// start begins a process, and returns when it works. Of a setting that is given twice,
// the last one counts.
func (r *replica) start(ctx context.Context, settings ...string) error {
	if err := r.launch(r.program, settings...); err != nil {
		return err
	}
	return r.awaitWork(ctx)
}

func (r *replica) launch(program string, settings ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts++
	r.address, r.asked = "", false
	c := exec.Command(program, r.command) //nolint:gosec,noctx // our own; it is ended by its pid
	c.Env = append(append([]string{
		"APP_ENV=demo", "OPS_ADDR=127.0.0.1:0", "HTTP_ADDR=127.0.0.1:0", "GORACE=halt_on_error=1",
	}, r.settings...), settings...)
	var err error
	r.process, err = process.Start(c, process.WithParent, r.logFile())
	return err
}

func (r *replica) logFile() string { return r.log + "-" + strconv.Itoa(r.starts) + ".log" }

// awaitWork returns when the process has logged that it works.
func (r *replica) awaitWork(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	line, err := r.logged(ctx, r.ready)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if line.Address != "" {
		r.address = "http://" + line.Address
	}
	return nil
}

// line is one of the log.
type line struct {
	Time    time.Time
	Message string `json:"msg"`
	Address string
}

// logged waits for the first line with this message.
func (r *replica) logged(ctx context.Context, message string) (l line, err error) {
	err = r.process.AwaitReady(ctx, func(context.Context) error {
		l, err = r.find(message)
		return err
	})
	if err != nil {
		return l, fmt.Errorf("%s: %w; its log:\n%s", r.name, err, process.LastLines(r.logFile()))
	}
	return l, nil
}

// find returns the first line with this message.
func (r *replica) find(message string) (line, error) { return r.findSince(message, time.Time{}) }

// findSince returns the first line with this message that is no older.
func (r *replica) findSince(message string, then time.Time) (l line, err error) {
	log, err := os.Open(r.logFile())
	if err != nil {
		return l, err
	}
	defer func() { _ = log.Close() }()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Message == message && !l.Time.Before(then) {
			return l, nil
		}
	}
	return line{}, fmt.Errorf("it has not logged %q", message)
}

// target is where its API is, unless it is down.
func (r *replica) target() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil || r.hidden || !r.process.Alive() {
		return ""
	}
	return r.address
}

// setting is what the process is told; of one that is given twice, the last one counts.
func (r *replica) setting(name, usual string) string {
	for _, s := range slices.Backward(r.settings) {
		if value, found := strings.CutPrefix(s, name+"="); found {
			return value
		}
	}
	return usual
}

// workers is how many e-mails it may have in hand.
func (r *replica) workers() int {
	n, err := strconv.Atoi(r.setting("CONSUMER_WORKERS", "8"))
	if err != nil {
		panic(err) // written by us
	}
	return n
}

// retryDelays are those of its retry queues.
func (r *replica) retryDelays() []string {
	return strings.Split(r.setting("RETRY_DELAYS", "30s,1m,5m"), ",")
}

// kill ends the process at once, and reports whether it was that which ended it.
func (r *replica) kill(ctx context.Context) (bool, error) {
	r.asked = true
	if err := r.process.End(ctx, syscall.SIGKILL); err != nil {
		return false, err
	}
	return r.wasKilled(), nil
}

// endedByItself reports whether nobody has asked the process to end, and it has: it
// panicked, or the race detector stopped it.
func (r *replica) endedByItself() bool {
	return r.process != nil && !r.process.Alive() && !r.asked && !r.wasKilled()
}

// wasKilled reports whether the process has ended by SIGKILL, whoever sent it.
func (r *replica) wasKilled() bool {
	status, ok := r.process.State().Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// stop asks the process to end, and says how it did.
func (r *replica) stop(ctx context.Context) (checker.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	r.asked = r.process.Alive()
	if err := r.process.End(ctx, syscall.SIGTERM); err != nil {
		return checker.Exit{}, fmt.Errorf("%s: %w", r.name, err)
	}
	return checker.Exit{Name: r.name, Code: r.process.State().ExitCode(), Took: time.Since(began)}, nil
}

// in is the program in another build.
func (r *replica) in(build string) string {
	return filepath.Join(filepath.Dir(r.program), build, filepath.Base(r.program))
}
