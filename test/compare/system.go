package main

import (
	"context"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/compare/judge"
	"example.com/transactional-outbox/test/compare/shop"
	"example.com/transactional-outbox/test/env/load"
	"example.com/transactional-outbox/test/env/mailserver"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
)

// The load of every row.
const (
	clients         = 8
	ordersPerSecond = 30
)

// system has everything that belongs to the run of one row.
type system struct {
	*allServers
	row
	random *rand.Rand

	orders, effects *pgxpool.Pool
	mail            *mailserver.Server
	load            *load.Load
	stopLoad        func()

	orderSides [2]*program
	consumer   *program

	ordersToBroker   [2]*servers.Proxy
	consumerToBroker *servers.Proxy
	consumerToMail   *servers.Proxy

	stalled []judge.Event
	closers []func()
}

// run runs one row.
func (s *allServers) run(ctx context.Context, r row, seed uint64) (res result, err error) {
	s.rows++
	sys := &system{allServers: s, row: r, random: rand.New(rand.NewPCG(seed, 1)), stopLoad: func() {}}
	defer sys.close()
	if err := sys.open(ctx); err != nil {
		return res, err
	}
	if err := sys.startPrograms(ctx); err != nil {
		return res, err
	}
	ended, err := sys.runUnderLoad(ctx)
	if err != nil {
		return res, err
	}
	finished, err := sys.awaitFinished(ctx)
	if err != nil {
		return res, err
	}
	return sys.result(ctx, ended, finished)
}

func (sys *system) open(ctx context.Context) error {
	ofOrders, ofEffects := "", ""
	if sys.design.side&consumerSide != 0 {
		ofOrders = services.Orders
	}
	if sys.design.name == thisProject {
		ofEffects = services.Notifications
	}
	orders, err := sys.newDatabase(ctx, ordersDatabase, ofOrders)
	if err != nil {
		return err
	}
	effects, err := sys.newDatabase(ctx, effectsDatabase, ofEffects)
	if err != nil {
		return err
	}
	if err := sys.resetBroker(ctx); err != nil {
		return err
	}
	if sys.fault.name == otherServiceFault {
		if err := shop.DeclareService(sys.broker.URLs[0], otherService); err != nil {
			return err
		}
	}
	if sys.orders, err = sys.pool(ctx, ordersDatabase); err != nil {
		return err
	}
	if sys.effects, err = sys.pool(ctx, effectsDatabase); err != nil {
		return err
	}
	if sys.mail, err = mailserver.Open(); err != nil {
		return err
	}
	sys.closers = append(sys.closers, sys.mail.Close)
	broker := hostOf(sys.broker.URLs[0])
	for proxy, target := range map[**servers.Proxy]string{
		&sys.ordersToBroker[0]: broker, &sys.ordersToBroker[1]: broker,
		&sys.consumerToBroker: broker, &sys.consumerToMail: sys.mail.Address(),
	} {
		if *proxy, err = servers.OpenProxy(target); err != nil {
			return err
		}
		sys.closers = append(sys.closers, (*proxy).Close)
	}
	sys.definePrograms(orders, effects)
	sys.load = load.New(sys.targets, clients, ordersPerSecond)
	return nil
}

func (sys *system) pool(ctx context.Context, database string) (*pgxpool.Pool, error) {
	pool, err := pgxpool.New(ctx, sys.Database.URL(database))
	if err == nil {
		sys.closers = append(sys.closers, pool.Close)
	}
	return pool, err
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // it is from our own servers
	}
	return u.Host
}

// runUnderLoad runs the load, injects the fault a second later, and returns the end of the fault.
func (sys *system) runUnderLoad(ctx context.Context) (ended time.Time, err error) {
	loading, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { sys.load.Run(loading, clients) })
	sys.stopLoad = sync.OnceFunc(func() { cancel(); running.Wait() })
	defer sys.stopLoad()
	stop := sys.keepAlive(ctx)
	sys.closers = append(sys.closers, stop)
	if err := sleep(ctx, time.Second); err != nil {
		return ended, err
	}
	if err := sys.fault.inject(sys, ctx); err != nil {
		return ended, err
	}
	ended = time.Now()
	return ended, sleep(ctx, time.Second)
}

// keepAlive starts processes again that have ended by themselves, until stop is called.
func (sys *system) keepAlive(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, p := range sys.programs() {
		running.Go(func() {
			for sleep(ctx, 300*time.Millisecond) == nil {
				p.keepAlive(ctx)
			}
		})
	}
	return sync.OnceFunc(func() { cancel(); running.Wait() })
}

// close kills the processes and closes the rest.
func (sys *system) close() {
	sys.stopLoad()
	slices.Reverse(sys.closers)
	for _, end := range sys.closers {
		end()
	}
	for _, p := range sys.programs() {
		if p != nil {
			_ = p.end(context.Background(), syscall.SIGKILL, time.Second)
		}
	}
}
