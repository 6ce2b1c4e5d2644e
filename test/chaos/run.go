package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/chaos/checker"
)

// scenario is load with a fault.
type scenario struct {
	name, description                   string
	build                               string   // an additional build of the services: crashing or wrongTime
	orderSettings, notificationSettings []string // additional settings of the services
	short                               bool     // part of SHORT=1
	// setUp adds servers that only some scenarios need, before the services start.
	setUp func(*system, context.Context) error
	// brokerOnly says that the fault does not touch the API: every request must succeed.
	brokerOnly bool
	// threeBrokers says that the scenario needs three brokers.
	threeBrokers bool
	// before prepares the servers, which have no queues then.
	before func(*environment, context.Context) error
	// fault injects the fault. It returns when the fault is over.
	fault func(*system, context.Context) error
	// afterwards is what an operator does after the fault.
	afterwards func(*system, context.Context) error
}

func find(name string) (scenario, bool) {
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return scenario{}, false
	}
	return scenarios[i], true
}

const clients = 4

// run runs one scenario, and checks the promises.
func (env *environment) run(ctx context.Context, s scenario) (r result, err error) {
	if s.before != nil {
		if err := env.deleteTopology(ctx); err != nil {
			return r, err
		}
		if err := s.before(env, ctx); err != nil {
			return r, fmt.Errorf("%s, before: %w", s.name, err)
		}
	}
	sys, err := env.newSystem(ctx, s)
	if err != nil {
		return r, err
	}
	defer sys.close() //nolint:contextcheck // cleanup must also run after ctx has ended
	if err := sys.start(ctx); err != nil {
		return r, err
	}
	if err := sys.runUnderLoad(ctx, s); err != nil {
		return r, fmt.Errorf("%s: %w", s.name, err)
	}
	faultEnded := time.Now()
	if s.afterwards != nil {
		if err := s.afterwards(sys, ctx); err != nil {
			return r, fmt.Errorf("%s, afterwards: %w", s.name, err)
		}
	}
	unfinished, err := sys.awaitRecovery(ctx)
	if err != nil {
		return r, fmt.Errorf("%s: %w", s.name, err)
	}
	recovery := time.Since(faultEnded)
	report, err := sys.check(ctx)
	if err != nil {
		return r, fmt.Errorf("%s: %w", s.name, err)
	}
	if unfinished != nil && report.Kept() {
		report.Broken["P4"] = append(report.Broken["P4"], unfinished.Error())
	}
	r = sys.result(s, report, recovery)
	if !r.Pass {
		r.logs, err = sys.keepLogs(s)
	}
	return r, err
}

// runUnderLoad runs the load, and injects the fault a second later.
func (sys *system) runUnderLoad(ctx context.Context, s scenario) error {
	loading, stop := context.WithCancel(ctx)
	defer stop()
	sys.load.SetMustSucceed(s.brokerOnly)
	var running errgroup.Group
	running.Go(func() error { sys.load.Run(loading, clients); return nil })
	err := sleep(ctx, sys.scaled(time.Second))
	if err == nil {
		err = s.fault(sys, ctx)
	}
	if err == nil {
		err = sys.start(ctx)
	}
	stop()
	_ = running.Wait()
	return err
}

// awaitRecovery waits until the services have finished all work. Then it does the same with new
// orders.
func (sys *system) awaitRecovery(ctx context.Context) (unfinished, err error) {
	if unfinished, err = sys.awaitFinished(ctx); unfinished != nil || err != nil {
		return unfinished, err
	}
	for range 3 {
		sys.load.Order(ctx)
	}
	return sys.awaitFinished(ctx)
}

// check stops the services, collects the evidence and checks it.
func (sys *system) check(ctx context.Context) (r checker.Report, err error) {
	if err := sys.stop(ctx); err != nil {
		return r, err
	}
	e := checker.Evidence{Attempts: sys.load.Ledger(), Mails: sys.mail.Mails(), Exits: sys.exits, Began: sys.began, Ended: time.Now()}
	e.Forgotten = sys.forgotten
	if err := e.ReadDatabases(ctx, sys.orderDB, sys.notificationDB); err != nil {
		return r, err
	}
	if err := sys.readQueues(ctx, &e); err != nil {
		return r, err
	}
	r = checker.Check(e, sys.allowed)
	for _, v := range sys.violations {
		r.Broken[v.promise] = append([]string{v.what}, r.Broken[v.promise]...) // first, so that explain shows them
	}
	return r, nil
}

// stop stops all replicas at the same time.
func (sys *system) stop(ctx context.Context) error {
	stopping, ctx := errgroup.WithContext(ctx)
	exits := make([]checker.Exit, len(sys.allReplicas()))
	for i, r := range sys.allReplicas() {
		stopping.Go(func() (err error) {
			exits[i], err = r.stop(ctx)
			return err
		})
	}
	err := stopping.Wait()
	sys.exits = append(sys.exits, exits...)
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// keepLogs copies the logs of a failed scenario to the output folder.
func (sys *system) keepLogs(s scenario) (string, error) {
	folder := filepath.Join(sys.Output, "chaos-logs", s.name)
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	return folder, os.CopyFS(folder, os.DirFS(sys.logs))
}

func (sys *system) result(s scenario, r checker.Report, recovery time.Duration) result {
	return result{
		Name: s.name, Seed: sys.Seed, Injected: sys.injected, Orders: r.Acknowledged,
		Attempted: r.Attempted, Recovered: r.Recovered, Lost: r.Lost + r.Forgotten, Explained: r.Explain(), Unexpected: r.Unexpected,
		Duplicated: r.Duplicated, DuplicateBound: sys.allowed.Duplicates,
		MailRepeats: r.MailRepeats, MailBound: r.MailBound,
		Takeover: sys.takeover.Seconds(), Recovery: recovery.Seconds(), With: sys.conditions(), Pass: r.Kept() && sys.injected > 0,
		Broken: maps.Clone(r.Broken), Measured: sys.notes,
	}
}
