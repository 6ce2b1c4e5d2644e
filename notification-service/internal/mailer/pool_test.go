package mailer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/smtptest"
)

// held holds the e-mails to some recipients at the dot, until release is closed.
type held struct {
	release   chan struct{}
	now, most atomic.Int32
}

func (h *held) at(t *testing.T, names string) func(step, to string) string {
	h.release = make(chan struct{})
	return func(step, to string) string {
		if step == "." && strings.HasPrefix(to, names) {
			h.most.Store(max(h.most.Load(), h.now.Add(1)))
			defer h.now.Add(-1)
			select {
			case <-h.release:
			case <-t.Context().Done(): // the test has failed
			}
		}
		return ""
	}
}

// want waits for results.
func want(t *testing.T, results <-chan publish.Result, n int, outcome publish.Outcome, reason error) {
	t.Helper()
	for range n {
		if r := <-results; r.Outcome != outcome || !errors.Is(r.Err, reason) {
			t.Errorf("%s (%v), want %s (%v)", names[r.Outcome], r.Err, names[outcome], reason)
		}
	}
}

func TestAllSessionsShareTheConnections(t *testing.T) {
	t.Parallel()
	secure, trusted := smtptest.Certificate()
	var h held
	server := &smtptest.Server{TLS: secure, At: h.at(t, "ada")}
	d := newDestination(t, "smtp://shop:secret@"+server.Start(t), 4)
	d.tls.RootCAs, d.limits.busy = trusted, time.Hour
	var all []<-chan publish.Result
	for range 3 { // 90 e-mails: after 100, a connection is replaced
		all = append(all, begin(t.Context(), newPublisher(t, d), spread(30, 10, "ada")...))
	}
	check.Await(t, "all connections are used", func() bool { return h.now.Load() == 4 })
	close(h.release)
	for _, results := range all {
		want(t, results, 30, publish.Confirmed, nil)
	}
	if logins, arrived := server.Times("AUTH"), len(server.Received()); logins != 4 || h.most.Load() != 4 || arrived != 90 {
		t.Errorf("%d logins, at most %d e-mails at the same time, %d of 90 arrived", logins, h.most.Load(), arrived)
	}
}

// TestP4ASlowDomainHasHalfOfTheConnections, and the others go on. What finds no connection only because
// of other domains waits on.
func TestP4ASlowDomainHasHalfOfTheConnections(t *testing.T) {
	t.Parallel()
	var h held
	d := start(t, &smtptest.Server{At: h.at(t, "slow")}, 8)
	busy := func(limit time.Duration) {
		d.pool.mu.Lock()
		defer d.pool.mu.Unlock()
		d.limits.busy = limit
	}
	busy(100 * time.Millisecond)
	p := newPublisher(t, d)
	slow := begin(t.Context(), p, spread(16, 1, "slow")...)
	check.Await(t, "half of the connections wait", func() bool { return h.now.Load() == 4 })
	want(t, slow, 12, publish.NotSent, publish.ErrBusy)
	busy(time.Hour) // no other domain is slow, however slow the machine is
	confirm(t, p, spread(100, 10, "ada")...)
	busy(100 * time.Millisecond)
	others := begin(t.Context(), p, message("slow@1.example"), message("slow@2.example"), message("slow@3.example"), message("slow@4.example"))
	check.Await(t, "all connections wait", func() bool { return h.now.Load() == 8 || len(others) > 0 })
	good := begin(t.Context(), p, message("ada@5.example"))
	for range 2 { // two time-outs later: the first one may have begun before that of good
		want(t, begin(t.Context(), p, message("slow@0.slow.example")), 1, publish.NotSent, publish.ErrBusy)
	}
	if len(good) > 0 {
		t.Error("an e-mail of another domain is given up")
	}
	close(h.release)
	want(t, slow, 4, publish.Confirmed, nil)
	want(t, others, 4, publish.Confirmed, nil)
	want(t, good, 1, publish.Confirmed, nil)
}

// TestP4SlowDomainsTogetherHaveHalfOfTheConnections once they are known to be slow. After that no other
// domain becomes slow, however slow the machine is.
func TestP4SlowDomainsTogetherHaveHalfOfTheConnections(t *testing.T) {
	t.Parallel()
	var h held
	d := start(t, &smtptest.Server{At: h.at(t, "slow")}, 8)
	for _, m := range spread(6, 6, "slow") {
		d.pool.slow[m.Topic] = struct{}{}
	}
	d.limits.busy = time.Hour
	p := newPublisher(t, d)
	slow := begin(t.Context(), p, spread(24, 6, "slow")...)
	check.Await(t, "half of the connections wait", func() bool { return h.now.Load() == 4 })
	confirm(t, p, spread(100, 10, "ada")...)
	if h.most.Load() != 4 {
		t.Errorf("%d slow ones at the same time, want 4", h.most.Load())
	}
	close(h.release)
	want(t, slow, 24, publish.Confirmed, nil)
}

// TestP7AnEmailIsNotBegunNorEndedAfterItsLease: the context says so by Err alone.
func TestP7AnEmailIsNotBegunNorEndedAfterItsLease(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"before MAIL", "before the dot"} {
		ended := lease{Context: t.Context(), ended: &atomic.Bool{}}
		ended.ended.Store(after == "before MAIL")
		server := &smtptest.Server{At: func(string, string) string { ended.ended.Store(true); return "" }}
		p := newPublisher(t, start(t, server, 2))
		want(t, begin(ended, p, message("ada@example.com")), 1, publish.NotSent, publish.ErrNotSent)
		if n := len(server.Received()); n != 0 {
			t.Errorf("%s: %d arrived", after, n)
		}
	}
}

type lease struct {
	context.Context
	ended *atomic.Bool
}

func (l lease) Err() error {
	if l.ended.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// TestAServerThatEndsEachConnectionGetsFew, until it takes an e-mail again. A domain for which it
// takes e-mails does not wait for those of the others.
func TestAServerThatEndsEachConnectionGetsFew(t *testing.T) {
	t.Parallel()
	const connections, domains, each = 4, 10, 30
	all := make(chan struct{}) // of the e-mails wait, or have a connection
	server := &smtptest.Server{At: func(_, to string) string {
		<-all
		return map[bool]string{true: "421 4.3.2 closing"}[to != "ada@good.example"]
	}}
	d := start(t, server, connections)
	d.limits.retry, d.limits.busy = time.Minute, time.Hour
	results := begin(t.Context(), newPublisher(t, d), append(spread(domains*each, domains, "eve"), message("ada@good.example"))...)
	check.Await(t, "all e-mails wait", func() bool {
		d.pool.mu.Lock()
		defer d.pool.mu.Unlock()
		return len(d.pool.waiting)+len(d.pool.inUse) == domains*each+1
	})
	close(all)
	count := map[publish.Outcome]int{}
	for range domains*each + 1 {
		r := check.Receive(t, results, "a result")
		count[r.Outcome]++
		if r.Outcome == publish.NotSent && !errors.Is(r.Err, publish.ErrBusy) {
			t.Error(r.Err)
		}
	}
	// Before and after the good one: some at the same time, and then one of each domain.
	const most = 2 * (2*connections + domains)
	if n := server.Times("greeting"); n > most || count[publish.Confirmed] != 1 {
		t.Errorf("%d connections for %d e-mails, want at most %d; %v", n, domains*each, most, count)
	}
}

// limited is a listener of a server that takes that many connections at the same time. The others
// get what it does with them.
type limited struct {
	net.Listener
	most, open atomic.Int32
	refuse     func(net.Conn)
	refused    chan struct{}
	once       sync.Once
}

// Accept returns the next connection that may be open.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most.Load() {
			return conn, nil // and it stays open
		}
		l.refuse(conn)
		l.once.Do(func() { close(l.refused) })
	}
}

// TestAServerThatAllowsFewerConnections: there is one session all the time.
func TestAServerThatAllowsFewerConnections(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(net.Conn){
		"421":     func(c net.Conn) { _, _ = fmt.Fprint(c, "421 4.7.0 too many connections\r\n"); _ = c.Close() },
		"closes":  func(c net.Conn) { _ = c.Close() },
		"silence": func(c net.Conn) { t.Cleanup(func() { _ = c.Close() }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener := &limited{Listener: smtptest.Listen(t), refuse: refuse, refused: make(chan struct{})}
			listener.most.Store(3)
			server := &smtptest.Server{At: func(string, string) string {
				select {
				case <-listener.refused:
				case <-t.Context().Done(): // the test has failed
				}
				return ""
			}}
			defer server.Serve(listener)()
			d := newDestination(t, "smtp://"+listener.Addr().String(), 8)
			s, lost := connect(t, d)
			p, _ := s.NewPublisher(100)
			defer p.Close()
			confirm(t, p, spread(100, 10, "ada")...)
			if lost.Err() != nil {
				t.Errorf("lost: %v", context.Cause(lost))
			}
		})
	}
}
