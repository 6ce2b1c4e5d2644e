package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/chaos/broker"
	"example.com/transactional-outbox/chaos/checker"
	"example.com/transactional-outbox/chaos/load"
	"example.com/transactional-outbox/chaos/mailserver"
	"example.com/transactional-outbox/internal/servertest"
)

// system is what one scenario has to itself, and what becomes of it.
type system struct {
	*ground
	random *rand.Rand
	logs   string

	orderDB, notificationDB *pgxpool.Pool // past the proxies
	mail                    *mailserver.Server
	load                    *load.Load
	orders, notifications   []*replica
	relays                  []*replica // beyond those of orders

	notifyToMail                                           *servertest.Proxy
	ordersToDB, ordersToBroker, notifyToDB, notifyToBroker [replicas]*servertest.Proxy // one for each replica
	commits                                                *commits

	began    time.Time
	injected int // faults, as seen from outside
	allowed  checker.Allowance
	// leasesAreTheirs says that nobody ends the leases of e-mails before their time.
	leasesAreTheirs bool
	broken          []complaint
	closers         []func()

	mu    sync.Mutex
	exits []checker.Exit
}

// How the services are set: smaller batches and shorter leases than in production, so
// that bounds are tight and recovery is soon.
const (
	replicas     = 2
	relayWorkers = 2
	relayBatch   = 20
	mailWorkers  = 4

	// inFlight is what one relay may have published and not yet marked.
	inFlight = relayWorkers * relayBatch

	lease      = 9 * time.Second
	shortLease = 3 * time.Second // where a scenario waits for the end of several
)

var (
	orderSettings = []string{
		fmt.Sprintf("RELAY_WORKERS=%d", relayWorkers), fmt.Sprintf("RELAY_BATCH_SIZE=%d", relayBatch),
		"RELAY_CONFIRM_TIMEOUT=3s", fmt.Sprint("RELAY_LEASE=", lease), "RELAY_POLL_INTERVAL=200ms", "RELAY_RETRY_BASE=100ms", "RELAY_RETRY_CAP=1s",
	}
	notificationSettings = []string{
		fmt.Sprintf("CONSUMER_WORKERS=%d", mailWorkers), "CONSUMER_PREFETCH=16", "RETRY_DELAYS=300ms,1s,3s", "MAIL_FROM=shop@example.com",
	}
)

// tiers are the names of the retry queues, and of the exchanges before them.
func (y *system) tiers() (names []string) {
	for _, delay := range y.notifications[0].retryDelays() {
		names = append(names, retryTier(delay))
	}
	return names
}

func retryTier(delay string) string { return broker.Queue + ".retry." + delay }

// complaint is what a scenario itself has seen of a promise that was broken.
type complaint struct{ promise, what string }

func (y *system) complain(promise, format string, args ...any) {
	y.broken = append(y.broken, complaint{promise, fmt.Sprintf(format, args...)})
}

// ourselves is how the database knows this program, which no fault shall hit.
const ourselves = "chaos"

// newSystem makes everything new but the servers. Nothing runs yet.
func (g *ground) newSystem(ctx context.Context, s scenario) (y *system, err error) {
	y = &system{ground: g, random: rand.New(rand.NewPCG(g.Seed, 1)), logs: filepath.Join(g.folder, s.name)} //nolint:gosec // replayable by its seed
	defer func() {                                                                                          //nolint:contextcheck // ends what ctx has begun, when ctx may have ended
		if err != nil {
			y.close()
		}
	}()
	y.began, y.allowed.Lease = time.Now(), lease
	y.leasesAreTheirs = g.Leases || s.slowSenders
	if err := errors.Join(os.MkdirAll(y.logs, 0o750), g.newDatabases(ctx), g.newTopology(ctx)); err != nil {
		return y, err
	}
	if err := y.open(ctx); err != nil {
		return y, err
	}
	y.place(s)
	y.load = load.New(y.targets, clients, g.PerSecond)
	return y, nil
}

// allTiers are the retry queues of all scenarios.
func allTiers() (names []string) {
	for _, s := range append([]scenario{soak}, scenarios...) {
		r := replica{settings: slices.Concat(notificationSettings, s.notifications)}
		for _, delay := range r.retryDelays() {
			names = append(names, retryTier(delay))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// newTopology deletes what the last scenario has left at the broker.
func (g *ground) newTopology(ctx context.Context) error {
	tiers := allTiers()
	queues := append([]string{broker.Queue, broker.DeadLetters, broker.OrderDeadLetters, broker.Tap}, tiers...)
	exchanges := append([]string{broker.Exchange, "notification-service.dlx", broker.Requeue, "order-service.dlx"}, tiers...)
	return errors.Join(g.broker.DeleteQueues(ctx, queues...), g.broker.DeleteExchanges(ctx, exchanges...), g.broker.BindTap(ctx))
}

func (y *system) open(ctx context.Context) (err error) {
	for _, pool := range []struct {
		to       **pgxpool.Pool
		database string
	}{{&y.orderDB, orderDatabase}, {&y.notificationDB, notificationDatabase}} {
		if *pool.to, err = pgxpool.New(ctx, y.postgres.URL(pool.database)+"&application_name="+ourselves); err != nil {
			return err
		}
		y.closers = append(y.closers, (*pool.to).Close)
	}
	if y.mail, err = mailserver.Open(); err != nil {
		return err
	}
	y.closers = append(y.closers, y.mail.Close)
	database, amqp := hostOf(y.postgres.URL("")), hostOf(y.broker.URL)
	for _, proxy := range []struct {
		to     **servertest.Proxy
		target string
	}{
		{&y.ordersToDB[0], database},
		{&y.ordersToDB[1], database},
		{&y.notifyToDB[0], database},
		{&y.notifyToDB[1], database},
		{&y.ordersToBroker[0], amqp},
		{&y.ordersToBroker[1], amqp},
		{&y.notifyToBroker[0], amqp},
		{&y.notifyToBroker[1], amqp},
		{&y.notifyToMail, y.mail.Address()},
	} {
		if *proxy.to, err = servertest.OpenProxy(proxy.target); err != nil {
			return err
		}
		y.closers = append(y.closers, (*proxy.to).Close)
	}
	y.commits = &commits{names: map[string]bool{}}
	for _, p := range y.databaseProxies() {
		p.DropReply(y.commits.loses)
	}
	return nil
}

func hostOf(address string) string { return parsed(address).Host }

// parsed is for URLs that the servers gave us.
func parsed(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return u
}

// through is a server's address with a proxy in the server's place.
func through(p *servertest.Proxy, address string) string {
	u := *parsed(address)
	u.Host = p.Addr()
	return u.String()
}

// place says how the replicas are run.
func (y *system) place(s scenario) {
	for i := range replicas {
		y.orders = append(y.orders, y.newOrders(i, s.orders))
		y.notifications = append(y.notifications, y.newNotifications(i, s.notifications))
	}
}

func (y *system) newNotifications(i int, settings []string) *replica {
	return &replica{
		name: fmt.Sprint(notificationService, " ", i+1), program: filepath.Join(y.folder, notificationService), command: "serve",
		ready: "taking messages", log: filepath.Join(y.logs, fmt.Sprint(notificationService, "-", i+1)),
		settings: slices.Concat([]string{
			"DATABASE_URL=" + through(y.notifyToDB[i%replicas], y.roles[notificationService].Application),
			"AMQP_URL=" + through(y.notifyToBroker[i%replicas], servertest.As(notificationService, y.broker.URL)), "SMTP_URL=smtp://" + y.notifyToMail.Addr(),
		}, notificationSettings, settings),
	}
}

func (y *system) newOrders(i int, settings []string) *replica {
	return &replica{
		name: fmt.Sprint(orderService, " ", i+1), program: filepath.Join(y.folder, orderService), command: "serve",
		ready: "taking orders", log: filepath.Join(y.logs, fmt.Sprint(orderService, "-", i+1)),
		settings: slices.Concat([]string{
			"DATABASE_URL=" + through(y.ordersToDB[i%replicas], y.roles[orderService].Application),
			"AMQP_URL=" + through(y.ordersToBroker[i%replicas], servertest.As(orderService, y.broker.URL)),
		}, orderSettings, settings),
	}
}

func (y *system) all() []*replica { return slices.Concat(y.orders, y.notifications, y.relays) }

// start starts every replica that does not run.
func (y *system) start(ctx context.Context) error {
	starting, ctx := errgroup.WithContext(ctx)
	for _, r := range y.all() {
		if r.endedByItself() {
			y.broken = append(y.broken, complaint{"P12", fmt.Sprintf("%s ended by itself: %s", r.name, r.process.State())})
		}
		if r.process == nil || !r.process.Alive() {
			starting.Go(func() error { return r.start(ctx) })
		}
	}
	return starting.Wait()
}

// targets are the APIs that live.
func (y *system) targets() (urls []string) {
	for _, r := range y.orders {
		if url := r.target(); url != "" {
			urls = append(urls, url)
		}
	}
	return urls
}

// close ends whatever still runs.
func (y *system) close() {
	for _, r := range y.all() {
		if r.process != nil {
			_, _ = r.kill(context.Background())
		}
	}
	for _, end := range y.closers {
		end()
	}
}
