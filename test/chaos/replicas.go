package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/servicelog"
)

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

var (
	orderSettings = []string{
		fmt.Sprintf("RELAY_WORKERS=%d", relayWorkers), fmt.Sprintf("RELAY_WINDOW=%d", relayWindow),
		"RELAY_CONFIRM_TIMEOUT=3s", fmt.Sprint("RELAY_LEASE=", lease), "RELAY_POLL_INTERVAL=200ms", "RELAY_RETRY_BASE=100ms", "RELAY_RETRY_CAP=1s",
	}
	notificationSettings = []string{
		"CONSUMER_BATCH_SIZE=8", "CONSUMER_PREFETCH=16", "RETRY_DELAYS=300ms,1s,3s", "MAIL_FROM=shop@example.com",
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
		name: fmt.Sprint(orderService, " ", i+1), program: filepath.Join(sys.folder, orderService), command: "serve",
		ready: servicelog.TakingOrders, log: filepath.Join(sys.logs, fmt.Sprint(orderService, "-", i+1)),
		settings: slices.Concat([]string{
			"DATABASE_URL=" + sys.databaseURL(sys.ordersToDB[i%replicas], sys.roles[orderService].Application),
			"AMQP_URL=" + sys.amqpURL(orderService, sys.ordersToBroker[i%replicas]),
		}, orderSettings, settings),
	}
}

func (sys *system) newNotificationService(i int, settings []string) *replica {
	return &replica{
		name: fmt.Sprint(notificationService, " ", i+1), program: filepath.Join(sys.folder, notificationService), command: "serve",
		ready: servicelog.TakingMessages, log: filepath.Join(sys.logs, fmt.Sprint(notificationService, "-", i+1)),
		settings: slices.Concat([]string{
			"DATABASE_URL=" + sys.databaseURL(sys.notifyToDB[i%replicas], sys.roles[notificationService].Application),
			"AMQP_URL=" + sys.amqpURL(notificationService, sys.notifyToBroker[i%replicas]), "SMTP_URL=smtp://" + sys.notifyToMail.Addr(),
		}, notificationSettings, settings),
	}
}

func (sys *system) allReplicas() []*replica {
	return slices.Concat(sys.orderServices, sys.notificationServices, sys.relays)
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
