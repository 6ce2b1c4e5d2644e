package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/env/load"
	"example.com/transactional-outbox/test/env/mailserver"
	"example.com/transactional-outbox/test/env/servers"
)

// system has everything that belongs to one scenario.
type system struct {
	*environment
	random *rand.Rand
	logs   string

	orderDB, notificationDB             *pgxpool.Pool // without a proxy
	mail                                *mailserver.Server
	load                                *load.Load
	orderServices, notificationServices []*replica

	ordersToDB, notifyToDB         [replicas]*servers.Proxy // one for each replica
	ordersToBroker, notifyToBroker [replicas]nodeProxies
	commits                        *commits
	pooler                         *servers.PgBouncer // nil unless the scenario has one
	standby                        *standby           // nil unless the scenario has one

	began    time.Time
	injected int // faults that had an effect
	// longestWait is until what is promised was true again: see require.
	longestWait time.Duration
	allowed     checker.Allowance
	lost        map[string]bool // the customers that a restore has forgotten: see leaveOutLost
	sent        map[string]bool // the e-mails that were sent before the restore
	violations  []violation
	notes       []string // what the scenario has measured
	closers     []func()

	mu    sync.Mutex
	exits []checker.Exit
}

// violation is a broken promise that the scenario itself has found.
type violation struct{ promise, what string }

func (sys *system) reportViolation(promise, format string, args ...any) {
	sys.violations = append(sys.violations, violation{promise, fmt.Sprintf(format, args...)})
}

// note adds to what the scenario has measured.
func (sys *system) note(format string, args ...any) {
	sys.notes = append(sys.notes, fmt.Sprintf(format, args...))
}

// applicationName is this program's application_name. No fault may hit its connections.
const applicationName = "chaos"

// newSystem prepares everything for a scenario. The services do not run yet.
func (env *environment) newSystem(ctx context.Context, s scenario) (sys *system, err error) {
	random := rand.New(rand.NewPCG(env.Seed, 1)) //nolint:gosec // a seed repeats it
	sys = &system{environment: env, random: random, logs: filepath.Join(env.folder, s.name)}
	defer func() { //nolint:contextcheck // cleanup must also run after ctx has ended
		if err != nil {
			sys.close()
		}
	}()
	sys.began, sys.allowed.Lease = time.Now(), lease
	if err := errors.Join(os.MkdirAll(sys.logs, 0o750), env.resetDatabases(ctx), env.resetTopology(ctx)); err != nil {
		return sys, err
	}
	if err := sys.open(ctx); err != nil {
		return sys, err
	}
	if s.setUp != nil {
		if err := s.setUp(sys, ctx); err != nil {
			return sys, err
		}
	}
	sys.addReplicas(s)
	sys.load = load.New(sys.targets, clients, env.PerSecond)
	sys.load.Patience = env.Patience
	return sys, nil
}

func (sys *system) open(ctx context.Context) (err error) {
	if err := sys.openPools(ctx); err != nil {
		return err
	}
	if sys.mail, err = mailserver.Open(); err != nil {
		return err
	}
	sys.closers = append(sys.closers, sys.mail.Close)
	sys.commits = &commits{names: map[string]bool{}}
	return sys.openProxies()
}

// openPools opens the suite's own connections to the databases.
func (sys *system) openPools(ctx context.Context) (err error) {
	for _, pool := range []struct {
		to       **pgxpool.Pool
		database string
	}{{&sys.orderDB, orderDatabase}, {&sys.notificationDB, notificationDatabase}} {
		if *pool.to, err = pgxpool.New(ctx, sys.postgres.URL(pool.database)+"&application_name="+applicationName); err != nil {
			return err
		}
		sys.closers = append(sys.closers, (*pool.to).Close)
	}
	return nil
}

// close kills the replicas and closes the rest.
func (sys *system) close() {
	for _, r := range sys.allReplicas() {
		if r.process != nil {
			_, _ = r.kill(context.Background())
		}
	}
	for _, end := range sys.closers {
		end()
	}
}
