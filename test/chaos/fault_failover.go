package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

// noticeTime is how long a failover manager takes until it promotes the standby.
const noticeTime = 2 * time.Second

// replicationDelay is how much later the standby gets everything. A commit that did not wait for
// the standby would be lost.
const replicationDelay = 200 * time.Millisecond

// failOverTwice kills the primary and promotes its standby. Then the old primary follows the new
// one, and the same happens in the other direction.
func (sys *system) failOverTwice(ctx context.Context) error {
	err := sys.failOver(ctx)
	if err == nil {
		err = errors.Join(sys.followBack(ctx), sys.postgres.Synchronous(ctx, standbyName))
	}
	if err == nil {
		err = sys.failOver(ctx)
	}
	return err
}

func (sys *system) failOver(ctx context.Context) error {
	sys.allowLostMarks()
	sys.standby.replication.Slow(replicationDelay)
	if err := sys.sleepRandom(ctx, sys.scaled(2*time.Second)); err != nil {
		return err
	}
	return sys.takeOver(ctx)
}

// failOverAfterStall kills the primary when its standby has taken nothing for longer than a request
// may last. Meanwhile the clients have repeated their requests. No order may be acknowledged in
// this time. The marks of e-mails wait too: those that the replicas have in flight may be sent again, and
// never after newer ones of their orders.
func (sys *system) failOverAfterStall(ctx context.Context) error {
	sys.allowLostMarks()
	sys.allowed.MailsEach++
	for _, r := range sys.notificationServices {
		sys.allowed.Mails += r.mailsInHand()
	}
	if err := sys.sleepRandom(ctx, sys.scaled(2*time.Second)); err != nil {
		return err
	}
	sys.standby.replication.Stall()
	sys.injected++
	if err := sleep(ctx, 10*time.Second); err != nil {
		return err
	}
	return sys.takeOver(ctx)
}

// takeOver kills the primary, and promotes its standby.
func (sys *system) takeOver(ctx context.Context) error {
	if err := sys.postgres.Kill(); err != nil { //nolint:contextcheck // it is fast, and never interrupted
		return err
	}
	if !sys.postgres.Running() {
		sys.injected++
	}
	return errors.Join(sleep(ctx, noticeTime), sys.promote(ctx), sys.requireWork(ctx))
}

// requireWork requires that each replica works from now on: it takes orders, publishes events and
// sends e-mails.
func (sys *system) requireWork(ctx context.Context) error {
	since := time.Now()
	return sys.require(ctx, "P4", "after the database came back", func() (string, error) { return sys.idleReplica(since), nil })
}

// idleReplica returns what a replica has not done since a time, or "".
func (sys *system) idleReplica(since time.Time) string {
	for _, r := range sys.orderServices {
		if sys.load.Answered(r.apiURL()).Before(since) {
			return fmt.Sprintf("%s has taken no order", r.name)
		}
		if _, err := r.process.Find(services.MessagePublished, since); err != nil {
			return fmt.Sprintf("%s has published nothing", r.name)
		}
	}
	for _, r := range sys.notificationServices {
		if _, err := r.process.Find(services.MessagePublished, since); err != nil {
			return fmt.Sprintf("%s has sent no e-mail", r.name)
		}
	}
	return ""
}

// returnOldPrimary starts the killed primary again after the failover, as it was: it takes writes,
// and waits for its standby at each commit. All connections to the new primary are reset meanwhile.
// The first host of the URL is the old primary, and no replica may go back to it.
func (sys *system) returnOldPrimary(ctx context.Context) error {
	if err := errors.Join(sys.failOver(ctx), sys.sleepRandom(ctx, time.Second)); err != nil {
		return err
	}
	old := sys.standby.server
	if err := old.Start(ctx); err != nil {
		return err
	}
	sys.allowInFlight()
	before := accepted(sys.standby.hosts[0])
	for _, p := range sys.standby.hosts[1] {
		sys.injected += p.Open()
		p.Reset()
	}
	if err := errors.Join(sleep(ctx, sys.scaled(5*time.Second)), sys.requireWork(ctx)); err != nil {
		return err
	}
	if back := accepted(sys.standby.hosts[0]) - before; back > 0 {
		sys.reportViolation("P1", "%d connections went back to the old primary", back)
	}
	return old.Kill() //nolint:contextcheck // it is fast, and never interrupted
}

// accepted counts the connections that the services have opened to a host.
func accepted(host databaseHost) (n int) {
	for _, p := range host {
		n += p.Accepted()
	}
	return n
}

// poolerParameters are what a URL needs for a PgBouncer before 1.21 in transaction mode. A prepared
// statement belongs to a session, and the next transaction may have another session.
const poolerParameters = "&default_query_exec_mode=cache_describe"

// startPooler starts a PgBouncer between the services and their databases.
func (sys *system) startPooler(ctx context.Context) (err error) {
	var roles []string
	for _, urls := range sys.roles {
		roles = append(roles, mustParse(urls.Application).User.Username())
	}
	if sys.pooler, err = sys.postgres.NewPgBouncer(ctx, filepath.Join(sys.folder, "pgbouncer"), process.WithParent, roles...); err != nil {
		return err
	}
	sys.closers = append(sys.closers, func() { _ = sys.pooler.Close() }) //nolint:contextcheck // cleanup must not be interrupted
	suite.Progress("  %s, %s", sys.pooler.Version(ctx), poolerParameters[1:])
	for _, proxies := range []*[replicas]*servers.Proxy{&sys.ordersToDB, &sys.notifyToDB} {
		for i := range proxies {
			if proxies[i], err = sys.openProxy(hostOf(sys.pooler.Via(sys.postgres.URL("")))); err != nil {
				return err
			}
		}
	}
	return sys.startPoolerAgain(ctx)
}

func (sys *system) startPoolerAgain(ctx context.Context) error {
	return sys.pooler.Start(ctx, sys.roles[services.Orders].Application)
}

// breakPooler kills PgBouncer twice, and then resets its connections.
func (sys *system) breakPooler(ctx context.Context) error {
	for range 2 {
		if err := sys.pooler.Kill(); err != nil { //nolint:contextcheck // it is fast, and never interrupted
			return err
		}
		sys.injected++
		if err := errors.Join(sys.sleepRandom(ctx, time.Second), sys.startPoolerAgain(ctx), sys.sleepRandom(ctx, sys.scaled(3*time.Second))); err != nil {
			return err
		}
	}
	for range 5 {
		for _, p := range sys.databaseProxies() {
			sys.injected += p.Open()
			p.Reset()
		}
		if err := sys.sleepRandom(ctx, sys.scaled(time.Second)); err != nil {
			return err
		}
	}
	return sys.requireWork(ctx)
}
