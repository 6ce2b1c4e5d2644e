package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	mailmigrations "example.com/transactional-outbox/notification-service/migrations"
	ordermigrations "example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
	"example.com/transactional-outbox/test/servicelog"
)

// layouts are the numbers of replicas: of order-service, which has API and relay, and of
// notification-service.
var layouts = []struct{ orders, notifications int }{{1, 1}, {2, 1}, {3, 1}, {1, 2}, {1, 3}}

// replicaRates are orders per second that this machine bears also with three replicas.
var replicaRates = []int{200, 400}

// measureReplicas places orders at the same rates on different numbers of replicas, and measures
// what an order costs each process. Each service has a PostgreSQL of its own, as in production.
func (b *bench) measureReplicas(ctx context.Context) error {
	server, err := servers.NewPostgres(filepath.Join(b.folder, "postgres-notifications"), process.WithParent)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }() //nolint:contextcheck // cleanup must also run after ctx has ended
	if err := server.Start(ctx); err != nil {
		return err
	}
	second := *b // the same, with the other server
	second.postgres = server
	for run := range b.Runs {
		for _, l := range layouts {
			progress("replicas, run %d of %d: %d of order-service, %d of notification-service, %d s at each of %v orders per second",
				run+1, b.Runs, l.orders, l.notifications, b.ReplicasTime, replicaRates)
			if err := b.withReplicas(ctx, &second, l.orders, l.notifications, b.replicasRun); err != nil {
				return err
			}
		}
	}
	return nil
}

// replicated are both services with their databases.
type replicated struct {
	name                  string
	orders, notifications database
	services              []service
	groups                map[int]string // for cpuByGroup
	addresses             []string       // of the APIs
}

// withReplicas starts the replicas and calls use.
func (b *bench) withReplicas(ctx context.Context, second *bench, n, m int, use func(context.Context, *replicated) error) error {
	return b.withDatabase(ctx, ordermigrations.Schema, func(ctx context.Context, d database) error {
		other, err := second.newDatabaseOf(ctx, mailmigrations.Schema)
		if err != nil {
			return err
		}
		defer other.drop()
		r := &replicated{name: fmt.Sprintf("replicas_%d_%d", n, m), orders: d, notifications: other, groups: map[int]string{}}
		defer r.end() //nolint:contextcheck // cleanup must also run after ctx has ended
		if err := r.start(ctx, b, n, m); err != nil {
			return err
		}
		return use(ctx, r)
	})
}

func (r *replicated) start(ctx context.Context, b *bench, n, m int) error {
	for range n {
		s, err := b.serve(ctx, orderService, "serve", r.orders, r.orders.broker)
		if err != nil {
			return err
		}
		r.add(s, "order_service")
		listening, err := s.logged(ctx, servicelog.TakingOrders)
		if err != nil {
			return err
		}
		r.addresses = append(r.addresses, listening.Address)
	}
	for range m {
		s, err := b.serve(ctx, notificationService, "serve", r.notifications, r.orders.broker)
		if err != nil {
			return err
		}
		r.add(s, "notification_service")
		if _, err := s.logged(ctx, servicelog.TakingMessages); err != nil {
			return err
		}
	}
	return r.addServers(ctx)
}

func (r *replicated) add(s service, group string) {
	r.services = append(r.services, s)
	r.groups[s.process.PID] = group
}

func (r *replicated) addServers(ctx context.Context) error {
	for group, d := range r.databases() {
		pid, err := d.postmaster(ctx)
		if err != nil {
			return err
		}
		r.groups[pid] = group
	}
	return nil
}

func (r *replicated) databases() map[string]database {
	return map[string]database{"order_db": r.orders, "notification_db": r.notifications}
}

func (r *replicated) end() {
	for _, s := range r.services {
		s.end()
	}
}

// replicasRun measures one layout at each rate.
func (b *bench) replicasRun(ctx context.Context, r *replicated) error {
	// A page that changes for the first time after a checkpoint is written to the WAL as a whole.
	// Most of these pages are written during the warm-up.
	for _, d := range r.databases() {
		if err := errors.Join(d.recycleWAL(ctx), d.settle(ctx)); err != nil {
			return err
		}
	}
	placed := 0
	for _, rate := range replicaRates {
		if err := r.place(ctx, warmUp, rate); err != nil {
			return err
		}
		if err := b.replicasAt(ctx, r, rate); err != nil {
			return err
		}
		placed += (int(warmUp.Seconds()) + b.ReplicasTime) * rate
	}
	return errors.Join(b.addCheckpoint(ctx, r, placed), b.addConnections(ctx, r))
}

// recycleWAL makes files for the next WAL. A new server has none, and would write each file twice:
// as zeros, and with its content. A server that has run for some time uses its old files again.
func (d database) recycleWAL(ctx context.Context) error {
	const files = 5 // of 16 MiB: the default of min_wal_size
	for range files {
		if _, err := d.pool.Exec(ctx, "SELECT pg_logical_emit_message(false, 'bench', ''), pg_switch_wal()"); err != nil {
			return err
		}
	}
	_, err := d.pool.Exec(ctx, "CHECKPOINT")
	return err
}

// place spreads orders over all replicas, and returns when all e-mails are sent. Its clients are
// new, because the API closes a connection that is idle for long.
func (r *replicated) place(ctx context.Context, length time.Duration, rate int) error {
	clients := make([]client, connections*len(r.addresses))
	for i, address := range r.addresses {
		some, closeAll, err := dialAll(ctx, address)
		if err != nil {
			return err
		}
		defer closeAll()
		for j, c := range some {
			clients[j*len(r.addresses)+i] = c // in turn
		}
	}
	if _, err := pace(ctx, clients, length, rate); err != nil {
		return err
	}
	placed, err := queryValue[int](ctx, r.orders, "SELECT count(*) FROM orders")
	if err != nil {
		return err
	}
	return r.notifications.awaitCount(ctx, mailed, placed)
}
