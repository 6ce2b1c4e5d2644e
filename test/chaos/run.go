package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/env/broker"
)

const clients = 4

// run runs one scenario, and checks the promises.
func (env *environment) run(ctx context.Context, s scenario) (r result, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
		}
	}()
	sys, err := env.newSystem(ctx, s)
	if err != nil {
		return r, err
	}
	defer sys.close() //nolint:contextcheck // cleanup must also run after ctx has ended
	if err := sys.start(ctx); err != nil {
		return r, err
	}
	if err := sys.runUnderLoad(ctx, s); err != nil {
		return r, err
	}
	faultEnded := time.Now()
	if s.afterwards != nil {
		if err := s.afterwards(sys, ctx); err != nil {
			return r, fmt.Errorf("afterwards: %w", err)
		}
	}
	unfinished, err := sys.awaitRecovery(ctx)
	if err != nil {
		return r, err
	}
	recovery := time.Since(faultEnded)
	report, err := sys.check(ctx)
	if err != nil {
		return r, err
	}
	if unfinished != "" && report.Kept() {
		report.Broken["P4"] = []string{fmt.Sprintf("not finished after %s: %s", sys.Patience, unfinished)}
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
	var running errgroup.Group
	running.Go(func() error { sys.load.Run(loading, clients); return nil })
	err := sleep(ctx, sys.scaled(time.Second))
	if err == nil {
		err = s.fault(sys, ctx)
	}
	if err == nil {
		err = sys.start(ctx)
	}
	if err != nil {
		sys.load.GiveUp()
	}
	stop()
	_ = running.Wait()
	return err
}

// awaitRecovery waits until the services have finished all work. Then it does the same with new
// orders.
func (sys *system) awaitRecovery(ctx context.Context) (unfinished string, err error) {
	if unfinished, err = sys.awaitFinished(ctx); unfinished != "" || err != nil {
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
	if err := e.ReadDatabases(ctx, sys.orderDB, sys.notificationDB); err != nil {
		return r, err
	}
	if err := sys.readQueues(ctx, &e); err != nil {
		return r, err
	}
	sys.leaveOutLost(&e)
	r = checker.Check(e, sys.allowed)
	for _, v := range sys.violations {
		r.Broken[v.promise] = append([]string{v.what}, r.Broken[v.promise]...) // first, so that explain shows them
	}
	return r, nil
}

// readQueues empties all queues. The consumers have stopped, so a missing message is lost.
func (sys *system) readQueues(ctx context.Context, e *checker.Evidence) (err error) {
	if e.Tap, err = sys.broker.Drain(ctx, broker.Tap); err != nil {
		return err
	}
	for _, queue := range append([]string{broker.Queue}, retryQueues()...) {
		waiting, err := sys.broker.Drain(ctx, queue)
		if err != nil {
			return err
		}
		e.Waiting = append(e.Waiting, waiting...)
	}
	e.DeadLetters, err = sys.broker.Drain(ctx, broker.DeadLetters)
	return err
}

// stop stops all replicas at the same time.
func (sys *system) stop(ctx context.Context) error {
	stopping, ctx := errgroup.WithContext(ctx)
	for _, r := range sys.allReplicas() {
		stopping.Go(func() error { return sys.stopReplica(ctx, r) })
	}
	return stopping.Wait()
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
		Attempted: r.Attempted, Lost: r.Lost, Unexpected: r.Unexpected,
		Duplicated: r.Duplicated, DuplicateBound: sys.allowed.Duplicates,
		MailRepeats: r.MailRepeats, MailBound: r.MailBound,
		LongestWait: sys.longestWait.Seconds(), Recovery: recovery.Seconds(), Pass: r.Kept() && sys.injected > 0,
		Broken: maps.Clone(r.Broken), Measured: sys.notes,
	}
}
