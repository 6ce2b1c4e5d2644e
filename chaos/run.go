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

	"example.com/transactional-outbox/chaos/checker"
)

// scenario is a fault under load.
type scenario struct {
	name, does            string
	build                 string   // what it needs beside the usual one
	orders, notifications []string // settings beyond the usual ones
	short                 bool     // one of the few that SHORT chooses
	// slowSenders says that an e-mail may take long without anybody being dead.
	slowSenders bool
	// brokerOnly says that the API has no excuse for an order that it does not take.
	brokerOnly bool
	// fault injects it and returns when it is over and all replicas may run again.
	fault func(*system, context.Context) error
	// afterwards is what an operator does then, if anything.
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

// run lets one scenario happen, and judges it.
func (g *ground) run(ctx context.Context, s scenario) (r result, err error) {
	y, err := g.newSystem(ctx, s)
	if err != nil {
		return r, err
	}
	defer y.close() //nolint:contextcheck // ends what ctx has begun, when ctx may have ended
	if err := y.start(ctx); err != nil {
		return r, err
	}
	if err := y.suffer(ctx, s); err != nil {
		return r, fmt.Errorf("%s: %w", s.name, err)
	}
	healed := time.Now()
	if s.afterwards != nil {
		if err := s.afterwards(y, ctx); err != nil {
			return r, fmt.Errorf("%s, afterwards: %w", s.name, err)
		}
	}
	quiet, err := y.recover(ctx)
	if err != nil {
		return r, fmt.Errorf("%s: %w", s.name, err)
	}
	recovery := time.Since(healed)
	report, err := y.judge(ctx)
	if err != nil {
		return r, fmt.Errorf("%s: %w", s.name, err)
	}
	if quiet != nil && report.Kept() {
		report.Broken["P4"] = append(report.Broken["P4"], quiet.Error())
	}
	r = y.result(s, report, recovery)
	if !r.Pass {
		r.kept, err = y.keepLogs(s)
	}
	return r, err
}

// suffer lets the load run, and the fault happen in its midst.
func (y *system) suffer(ctx context.Context, s scenario) error {
	loading, stop := context.WithCancel(ctx)
	defer stop()
	y.load.Accuse(s.brokerOnly)
	var running errgroup.Group
	running.Go(func() error { y.load.Run(loading, clients); return nil })
	err := sleep(ctx, y.scaled(time.Second))
	if err == nil {
		err = s.fault(y, ctx)
	}
	if err == nil {
		err = y.start(ctx)
	}
	stop()
	_ = running.Wait()
	return err
}

// recover waits until all is quiet, and wants new orders to come through as before.
func (y *system) recover(ctx context.Context) (quiet, err error) {
	if quiet, err = y.awaitQuiet(ctx); quiet != nil || err != nil {
		return quiet, err
	}
	for range 3 {
		y.load.Order(ctx)
	}
	return y.awaitQuiet(ctx)
}

// judge ends the services, and then reads all that is left.
func (y *system) judge(ctx context.Context) (r checker.Report, err error) {
	if err := y.stop(ctx); err != nil {
		return r, err
	}
	e := checker.Evidence{Attempts: y.load.Ledger(), Mails: y.mail.Mails(), Exits: y.exits, Began: y.began, Ended: time.Now()}
	if err := e.ReadDatabases(ctx, y.orderDB, y.notificationDB); err != nil {
		return r, err
	}
	if err := y.readQueues(ctx, &e); err != nil {
		return r, err
	}
	r = checker.Judge(e, y.allowed)
	for _, c := range y.broken {
		r.Broken[c.promise] = append([]string{c.what}, r.Broken[c.promise]...) // the first ones are shown
	}
	return r, nil
}

// stop asks all replicas to end, at once.
func (y *system) stop(ctx context.Context) error {
	stopping, ctx := errgroup.WithContext(ctx)
	exits := make([]checker.Exit, len(y.all()))
	for i, r := range y.all() {
		stopping.Go(func() (err error) {
			exits[i], err = r.stop(ctx)
			return err
		})
	}
	err := stopping.Wait()
	y.exits = append(y.exits, exits...)
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

// keepLogs moves the logs of a scenario that failed to where they stay.
func (y *system) keepLogs(s scenario) (string, error) {
	kept := filepath.Join(y.Output, "chaos-logs", s.name)
	if err := os.RemoveAll(kept); err != nil {
		return "", err
	}
	return kept, os.CopyFS(kept, os.DirFS(y.logs))
}

func (y *system) result(s scenario, r checker.Report, recovery time.Duration) result {
	return result{
		Name: s.name, Seed: y.Seed, Injected: y.injected, Orders: r.Acknowledged,
		Attempted: r.Attempted, Recovered: r.Recovered, Lost: r.Lost, Unexpected: r.Unexpected,
		Duplicated: r.Duplicated, DuplicateBound: y.allowed.Duplicates,
		MailRepeats: r.MailRepeats, MailBound: r.MailBound,
		Recovery: recovery.Seconds(), With: y.conditions(), Pass: r.Kept() && y.injected > 0,
		Broken: maps.Clone(r.Broken),
	}
}
