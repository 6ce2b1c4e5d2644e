package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/servers/process"
)

// replica is one process of a service. After a stop, a new process takes its place.
type replica struct {
	name     string // for messages: order-service 1
	program  string // path of the program
	command  string // serve
	settings []string
	ready    string // the log message of a ready process
	log      string // prefix of the log files; each process has its own

	mu            sync.Mutex
	process       *process.Process
	starts        int
	address       string // URL of the API
	hidden        bool   // the load does not use it
	stopRequested bool   // the suite has stopped or killed it
}

// maxWait limits every wait, so that a failure ends. No promise depends on it.
const maxWait = 90 * time.Second

// start starts a process, and returns when it is ready. If a setting is given twice, the last one
// counts.
func (r *replica) start(ctx context.Context, settings ...string) error {
	if err := r.launch(r.program, settings...); err != nil {
		return err
	}
	return r.awaitReady(ctx)
}

func (r *replica) launch(program string, settings ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts++
	r.address, r.stopRequested = "", false
	c := exec.Command(program, r.command) //nolint:gosec,noctx // our own program; it is stopped by its pid
	c.Env = append(append([]string{
		"APP_ENV=demo", "OPS_ADDR=127.0.0.1:0", "HTTP_ADDR=127.0.0.1:0", "GORACE=halt_on_error=1",
	}, r.settings...), settings...)
	var err error
	r.process, err = process.Start(c, process.WithParent, r.logFile())
	return err
}

func (r *replica) logFile() string { return r.log + "-" + strconv.Itoa(r.starts) + ".log" }

// awaitReady returns when the process has logged that it is ready.
func (r *replica) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
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

// apiURL returns the URL of the API, "" if the process does not run.
func (r *replica) apiURL() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil || r.hidden || !r.process.Alive() {
		return ""
	}
	return r.address
}

// setting returns the value of a setting. If it is given twice, the last one counts.
func (r *replica) setting(name, fallback string) string {
	for _, s := range slices.Backward(r.settings) {
		if value, found := strings.CutPrefix(s, name+"="); found {
			return value
		}
	}
	return fallback
}

// mailsInFlight is the maximum number of e-mails that a process repeats when it dies: those that
// its connections are sending, and those that were answered while it wrote the marks before.
func (r *replica) mailsInFlight() int { return 2 * r.intSetting("MAIL_CONNECTIONS", "8") }

// mailsInHand is how many e-mails the process may have sent and not marked while the database is
// away.
func (r *replica) mailsInHand() int {
	return r.intSetting("RELAY_WORKERS", "2")*r.intSetting("RELAY_WINDOW", "64") + r.mailsInFlight()
}

func (r *replica) intSetting(name, fallback string) int {
	n, err := strconv.Atoi(r.setting(name, fallback))
	if err != nil {
		panic(err) // the suite has set it
	}
	return n
}

// retryDelays returns the delays of the retry queues.
func (r *replica) retryDelays() []string {
	return strings.Split(r.setting("RETRY_DELAYS", "30s,1m,5m"), ",")
}

// kill sends SIGKILL. It returns false if the process had already ended.
func (r *replica) kill(ctx context.Context) (bool, error) {
	r.stopRequested = true
	if err := r.process.End(ctx, syscall.SIGKILL); err != nil {
		return false, err
	}
	return r.wasKilled(), nil
}

// exitedUnexpectedly reports whether the process has ended and the suite did not stop it: it
// panicked, or the race detector stopped it.
func (r *replica) exitedUnexpectedly() bool {
	return r.process != nil && !r.process.Alive() && !r.stopRequested && !r.wasKilled()
}

// wasKilled reports whether SIGKILL has ended the process. A crash point sends it to itself.
func (r *replica) wasKilled() bool {
	status, ok := r.process.State().Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// stop sends SIGTERM, and waits for the end of the process.
func (r *replica) stop(ctx context.Context) (checker.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	began := time.Now()
	r.stopRequested = r.process.Alive()
	if err := r.process.End(ctx, syscall.SIGTERM); err != nil {
		return checker.Exit{}, fmt.Errorf("%s: %w", r.name, err)
	}
	return checker.Exit{Name: r.name, Code: r.process.State().ExitCode(), Took: time.Since(began)}, nil
}

// programIn returns the path of the program in another build.
func (r *replica) programIn(build string) string {
	return filepath.Join(filepath.Dir(r.program), build, filepath.Base(r.program))
}
