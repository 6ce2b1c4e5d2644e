package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/env/services"
)

// replica is one process of a service. After a stop, a new process takes its place.
type replica struct {
	name     string // for messages: order-service 1
	program  string // path of the program
	settings []string
	ready    string // the log message of a ready process
	log      string // prefix of the log files; each process has its own

	mu            sync.Mutex
	process       *services.Process
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
	var err error
	r.process, err = services.Start(program, "serve", r.log+"-"+strconv.Itoa(r.starts)+".log", append(slices.Clip(r.settings), settings...)...)
	return err
}

// awaitReady returns when the process has logged that it is ready.
func (r *replica) awaitReady(ctx context.Context) error {
	url, err := r.process.Address(ctx, r.ready)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.address = url
	return err
}

// apiURL returns the URL of the API, "" if the process does not run.
func (r *replica) apiURL() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hidden || !r.process.Alive() {
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
	err := r.process.Kill(ctx)
	return r.process.WasKilled(), err
}

// exitedUnexpectedly reports whether the process has ended and the suite did not stop it: it
// panicked, or the race detector stopped it.
func (r *replica) exitedUnexpectedly() bool {
	return r.process != nil && !r.process.Alive() && !r.stopRequested && !r.process.WasKilled()
}

// stop sends SIGTERM, and waits for the end of the process.
func (r *replica) stop(ctx context.Context) (checker.Exit, error) {
	began := time.Now()
	r.stopRequested = r.process.Alive()
	code, err := r.process.Stop(ctx)
	return checker.Exit{Name: r.name, Code: code, Took: time.Since(began)}, err
}

// programIn returns the path of the program in another build.
func (r *replica) programIn(build string) string {
	return filepath.Join(filepath.Dir(r.program), build, filepath.Base(r.program))
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
		name: fmt.Sprint(services.Orders, " ", i+1), program: filepath.Join(sys.folder, services.Orders),
		ready: services.TakingOrders, log: filepath.Join(sys.logs, fmt.Sprint(services.Orders, "-", i+1)),
		settings: slices.Concat([]string{
			"DATABASE_URL=" + sys.databaseURL(sys.ordersToDB[i%replicas], sys.roles[services.Orders].Application),
			"AMQP_URL=" + sys.amqpURL(services.Orders, sys.ordersToBroker[i%replicas]),
		}, orderSettings, settings),
	}
}

func (sys *system) newNotificationService(i int, settings []string) *replica {
	return &replica{
		name: fmt.Sprint(services.Notifications, " ", i+1), program: filepath.Join(sys.folder, services.Notifications),
		ready: services.TakingMessages, log: filepath.Join(sys.logs, fmt.Sprint(services.Notifications, "-", i+1)),
		settings: slices.Concat([]string{
			"DATABASE_URL=" + sys.databaseURL(sys.notifyToDB[i%replicas], sys.roles[services.Notifications].Application),
			"AMQP_URL=" + sys.amqpURL(services.Notifications, sys.notifyToBroker[i%replicas]), "SMTP_URL=smtp://" + sys.mail.Address(),
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
		if !r.process.Alive() {
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
