package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/servicelog"
)

// replica is one process of a service. After a stop, a new process takes its place.
type replica struct {
	name     string // for messages: order-service 1
	program  string // path of the program
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

// start starts a process, and returns when it is ready.
func (r *replica) start(ctx context.Context) error {
	if err := r.launch(r.program); err != nil {
		return err
	}
	return r.awaitReady(ctx)
}

func (r *replica) launch(program string, settings ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts++
	r.address, r.stopRequested = "", false
	c := exec.Command(program, "serve") //nolint:noctx // it is stopped by its pid
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

// logged waits for the first log line with this message.
func (r *replica) logged(ctx context.Context, message string) (servicelog.Line, error) {
	l, err := servicelog.Await(ctx, r.process, r.logFile(), message)
	if err != nil {
		return l, fmt.Errorf("%s: %w", r.name, err)
	}
	return l, nil
}

// findSince returns the first log line with this message at or after a time.
func (r *replica) findSince(message string, since time.Time) (servicelog.Line, error) {
	return servicelog.Find(r.logFile(), message, since)
}

// metric returns the value of a metric without labels.
func (r *replica) metric(ctx context.Context, name string) (float64, error) {
	line, err := r.logged(ctx, servicelog.AnsweringOperators)
	if err != nil {
		return 0, err
	}
	text, err := get(ctx, "http://"+line.Address+"/metrics")
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.name, err)
	}
	for l := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(l), name+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", r.name, name)
}

// get returns the body of an answer.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// Settings of the services: smaller windows and shorter leases than in production, so that bounds
// are tight and recovery is fast.
const (
	replicas     = 2
	relayWorkers = 2
	relayWindow  = 20

	mailConnections = 4

	// inFlight is how many events one relay may have published and not yet marked.
	inFlight = relayWorkers * relayWindow

	lease      = 9 * time.Second
	shortLease = 5 * time.Second // for scenarios that wait for several leases to end
)

var retryDelays = []string{"300ms", "1s", "3s"}

var (
	orderSettings = []string{
		fmt.Sprintf("RELAY_WORKERS=%d", relayWorkers), fmt.Sprintf("RELAY_WINDOW=%d", relayWindow),
		"RELAY_CONFIRM_TIMEOUT=3s", fmt.Sprint("RELAY_LEASE=", lease), "RELAY_POLL_INTERVAL=200ms", "RELAY_RETRY_BASE=100ms", "RELAY_RETRY_CAP=1s",
	}
	notificationSettings = []string{
		"CONSUMER_BATCH_SIZE=8", "CONSUMER_PREFETCH=16", "RETRY_DELAYS=" + strings.Join(retryDelays, ","), "MAIL_FROM=shop@example.com",
		fmt.Sprintf("MAIL_CONNECTIONS=%d", mailConnections), "RELAY_WINDOW=8", fmt.Sprint("RELAY_LEASE=", lease),
		"RELAY_POLL_INTERVAL=200ms", "RELAY_RETRY_BASE=100ms", "RELAY_RETRY_CAP=1s",
	}
)

func (sys *system) addReplicas(s scenario) {
	for i := range replicas {
		sys.orderServices = append(sys.orderServices, sys.newOrderService(i, s.orderSettings))
		sys.notificationServices = append(sys.notificationServices, sys.newNotificationService(i, s.notificationSettings))
	}
}

func (sys *system) newOrderService(i int, settings []string) *replica {
	return &replica{
		name: fmt.Sprint(orderService, " ", i+1), program: filepath.Join(sys.folder, orderService),
		ready: servicelog.TakingOrders, log: filepath.Join(sys.logs, fmt.Sprint(orderService, "-", i+1)),
		settings: slices.Concat([]string{
			"DATABASE_URL=" + sys.databaseURL(sys.ordersToDB[i%replicas], sys.roles[orderService].Application),
			"AMQP_URL=" + sys.amqpURL(orderService, sys.ordersToBroker[i%replicas]),
		}, orderSettings, settings),
	}
}

func (sys *system) newNotificationService(i int, settings []string) *replica {
	return &replica{
		name: fmt.Sprint(notificationService, " ", i+1), program: filepath.Join(sys.folder, notificationService),
		ready: servicelog.TakingMessages, log: filepath.Join(sys.logs, fmt.Sprint(notificationService, "-", i+1)),
		settings: slices.Concat([]string{
			"DATABASE_URL=" + sys.databaseURL(sys.notifyToDB[i%replicas], sys.roles[notificationService].Application),
			"AMQP_URL=" + sys.amqpURL(notificationService, sys.notifyToBroker[i%replicas]), "SMTP_URL=smtp://" + sys.mail.Address(),
		}, notificationSettings, settings),
	}
}

func (sys *system) allReplicas() []*replica {
	return slices.Concat(sys.orderServices, sys.notificationServices)
}

// start starts the replicas that do not run.
func (sys *system) start(ctx context.Context) error {
	starting, ctx := errgroup.WithContext(ctx)
	for _, r := range sys.allReplicas() {
		if r.exitedUnexpectedly() {
			sys.reportViolation("P12", "%s ended unexpectedly: %s", r.name, r.process.State())
		}
		if r.process == nil || !r.process.Alive() {
			starting.Go(func() error { return r.start(ctx) })
		}
	}
	return starting.Wait()
}

// targets returns the URLs of the running APIs.
func (sys *system) targets() (urls []string) {
	for _, r := range sys.orderServices {
		if url := r.apiURL(); url != "" {
			urls = append(urls, url)
		}
	}
	return urls
}
