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

	"github.com/emersion/go-smtp"

	"example.com/transactional-outbox/notification-service/internal/mailer/mailertest"
	"example.com/transactional-outbox/outbox/publish"
)

// spread returns n messages of as many groups, spread over that many domains.
func spread(n, domains int) (all []publish.Message) {
	for i := range n {
		m := message(fmt.Sprintf("ada@%d.example", i%domains))
		m.Group = fmt.Sprint(i)
		all = append(all, m)
	}
	return all
}

func TestAllSessionsShareTheConnections(t *testing.T) {
	t.Parallel()
	secure, trusted := certificate()
	var now, most atomic.Int32
	server := &mailertest.Server{TLS: secure, OnDot: func(string) error {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		time.Sleep(time.Millisecond)
		return nil
	}}
	d := newDestination(t, "smtp://shop:secret@"+server.Start(t), 4, func(d *Destination) { d.tls.RootCAs = trusted })
	var sending sync.WaitGroup
	for range 3 {
		p := newPublisher(t, d)
		sending.Go(func() {
			for i, r := range send(t, p, spread(100, 10)...) {
				if r.Outcome != publish.Confirmed {
					t.Errorf("message %d: %s (%v)", i, names[r.Outcome], r.Err)
				}
			}
		})
	}
	sending.Wait()
	if got := len(server.Received()); got != 300 {
		t.Errorf("%d e-mails arrived, want 300", got)
	}
	if n := server.Logins.Load(); n > 4+3 || most.Load() != 4 {
		t.Errorf("%d logins, at most %d e-mails at the same time", n, most.Load())
	}
}

// TestASlowDomainHasHalfOfTheConnections, and the others go on.
func TestASlowDomainHasHalfOfTheConnections(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	var now, most atomic.Int32
	server := &mailertest.Server{OnDot: func(to string) error {
		if strings.HasSuffix(to, "@slow.example") {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-answer
		}
		return nil
	}}
	p := newPublisher(t, newDestination(t, "smtp://"+server.Start(t), 8, func(d *Destination) { d.limits.busy = 100 * time.Millisecond }))
	slow := make([]publish.Message, 16)
	for i := range slow {
		slow[i] = message("ada@slow.example")
		slow[i].Group = fmt.Sprint(i)
	}
	results := make(chan publish.Result, len(slow))
	p.Publish(t.Context(), slow, func(_ int, r publish.Result) { results <- r })
	waitUntil(t, "half of the connections wait", func() bool { return now.Load() == 4 })
	for i, r := range send(t, p, spread(100, 10)...) {
		if r.Outcome != publish.Confirmed {
			t.Errorf("message %d: %s (%v)", i, names[r.Outcome], r.Err)
		}
	}
	for range 12 {
		if r := <-results; r.Outcome != publish.NotSent || !errors.Is(r.Err, publish.ErrBusy) {
			t.Errorf("a slow one is %s (%v)", names[r.Outcome], r.Err)
		}
	}
	close(answer)
	for range 4 {
		if r := <-results; r.Outcome != publish.Confirmed {
			t.Errorf("a slow one is %s (%v)", names[r.Outcome], r.Err)
		}
	}
	if most.Load() != 4 {
		t.Errorf("%d at the same time, want 4", most.Load())
	}
}

// TestSlowDomainsTogetherHaveHalfOfTheConnections once they are known to be slow. After that no other
// domain becomes slow, however slow the machine is.
func TestSlowDomainsTogetherHaveHalfOfTheConnections(t *testing.T) {
	t.Parallel()
	const busy = 20 * time.Millisecond
	answer := make(chan struct{})
	var known atomic.Bool
	var now, most atomic.Int32
	server := &mailertest.Server{OnDot: func(to string) error {
		switch {
		case !strings.HasPrefix(to, "slow"):
		case !known.Load():
			time.Sleep(2 * busy)
		default:
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-answer
		}
		return nil
	}}
	d := newDestination(t, "smtp://"+server.Start(t), 8, func(d *Destination) { d.limits.busy = busy })
	p := newPublisher(t, d)
	slow := spread(24, 6)
	for i := range slow {
		slow[i] = message("slow@" + fmt.Sprint(i%6) + ".slow.example")
		slow[i].Group = fmt.Sprint(i)
	}
	confirmed := func(results ...publish.Result) {
		t.Helper()
		for i, r := range results {
			if r.Outcome != publish.Confirmed {
				t.Errorf("message %d: %s (%v)", i, names[r.Outcome], r.Err)
			}
		}
	}
	for _, m := range slow[:6] { // one after the other: none is busy
		confirmed(send(t, p, m)...)
	}
	known.Store(true)
	d.pool.mu.Lock()
	d.limits.busy = time.Hour
	d.pool.mu.Unlock()
	results := make(chan publish.Result, len(slow))
	p.Publish(t.Context(), slow, func(_ int, r publish.Result) { results <- r })
	waitUntil(t, "half of the connections wait", func() bool { return now.Load() == 4 })
	confirmed(send(t, p, spread(100, 10)...)...)
	if most.Load() != 4 {
		t.Errorf("%d slow ones at the same time, want 4", most.Load())
	}
	close(answer)
	for range slow {
		confirmed(<-results)
	}
}

// TestAnEmailIsNotBegunNorEndedAfterItsLease: the context says so by Err alone.
func TestAnEmailIsNotBegunNorEndedAfterItsLease(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"before MAIL", "before the dot"} {
		ended := lease{Context: t.Context(), ended: &atomic.Bool{}}
		ended.ended.Store(after == "before MAIL")
		server := &mailertest.Server{OnRcpt: func(string) error { ended.ended.Store(true); return nil }}
		p := newPublisher(t, newDestination(t, "smtp://"+server.Start(t), 2))
		results := make(chan publish.Result, 1)
		p.Publish(ended, []publish.Message{message("ada@example.com")}, func(_ int, r publish.Result) { results <- r })
		if r := <-results; r.Outcome != publish.NotSent {
			t.Errorf("%s: %s (%v)", after, names[r.Outcome], r.Err)
		}
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

// TestWhatWaitsForOtherDomainsWaitsOn: its own domain has no connection.
func TestWhatWaitsForOtherDomainsWaitsOn(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	server := &mailertest.Server{OnDot: func(to string) error {
		if !strings.HasPrefix(to, "good") {
			<-answer
		}
		return nil
	}}
	p := newPublisher(t, newDestination(t, "smtp://"+server.Start(t), 4, func(d *Destination) { d.limits.busy = 20 * time.Millisecond }))
	results := make(chan publish.Result, 6)
	p.Publish(t.Context(), spread(4, 2), func(_ int, r publish.Result) { results <- r })
	ctx, cancel := context.WithCancel(t.Context())
	good := []publish.Message{message("good@one.example"), message("good@two.example")}
	time.Sleep(50 * time.Millisecond)
	p.Publish(t.Context(), good[:1], func(_ int, r publish.Result) { results <- r })
	p.Publish(ctx, good[1:], func(_ int, r publish.Result) { results <- r })
	select {
	case r := <-results:
		t.Errorf("%s (%v)", names[r.Outcome], r.Err)
	case <-time.After(200 * time.Millisecond):
	}
	cancel()
	if r := <-results; r.Outcome != publish.NotSent || !errors.Is(r.Err, publish.ErrNotSent) || errors.Is(r.Err, publish.ErrBusy) {
		t.Errorf("when its context ends, it is %s (%v)", names[r.Outcome], r.Err)
	}
	close(answer)
	for range 5 {
		if r := <-results; r.Outcome != publish.Confirmed {
			t.Errorf("%s (%v)", names[r.Outcome], r.Err)
		}
	}
}

// TestAServerThatEndsEachConnectionGetsFew, until it takes an e-mail again. A domain for which it
// takes e-mails does not wait for those of the others.
func TestAServerThatEndsEachConnectionGetsFew(t *testing.T) {
	t.Parallel()
	const connections, domains, each = 4, 10, 30
	server := &mailertest.Server{OnRcpt: func(to string) error {
		if to == "ada@good.example" {
			return nil
		}
		return &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 3, 2}, Message: "closing"}
	}}
	d := newDestination(t, "smtp://"+server.Start(t), connections, func(d *Destination) { d.limits.retry = time.Minute })
	p, count := newPublisher(t, d), map[publish.Outcome]int32{}
	for _, r := range send(t, p, append(spread(domains*each, domains), message("ada@good.example"))...) {
		count[r.Outcome]++
		if r.Outcome == publish.NotSent && !errors.Is(r.Err, publish.ErrBusy) {
			t.Error(r.Err)
		}
	}
	// Before and after the good one: some at the same time, and then one of each domain.
	const most = 2 * (2*connections + domains)
	if n := server.Connections.Load(); n > most || count[publish.Confirmed] != 1 {
		t.Errorf("%d connections for %d e-mails, want at most %d; %v", n, domains*each, most, count)
	}
}

// limited is a listener of a server that takes that many connections at the same time. The others
// get what it does with them.
type limited struct {
	net.Listener
	open, refused atomic.Int32
	most          int32
	refuse        func(net.Conn)
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &counted{Conn: conn, l: l}, nil
		}
		l.open.Add(-1)
		l.refused.Add(1)
		l.refuse(conn)
	}
}

type counted struct {
	net.Conn
	once sync.Once
	l    *limited
}

func (c *counted) Close() error {
	c.once.Do(func() { c.l.open.Add(-1) })
	return c.Conn.Close()
}

// TestAServerThatAllowsFewerConnections: there is one session all the time.
func TestAServerThatAllowsFewerConnections(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(net.Conn){
		"421":     func(c net.Conn) { _, _ = fmt.Fprint(c, "421 4.7.0 too many connections\r\n"); _ = c.Close() },
		"closes":  func(c net.Conn) { _ = c.Close() },
		"silence": func(c net.Conn) { t.Cleanup(func() { _ = c.Close() }) },
	} {
		for _, allowed := range []int32{1, 3} {
			t.Run(fmt.Sprintf("%s %d", name, allowed), func(t *testing.T) {
				t.Parallel()
				const n = 100
				listener := &limited{Listener: mailertest.Listen(t), most: allowed, refuse: refuse}
				server := &mailertest.Server{OnDot: func(string) error {
					time.Sleep(20 * time.Millisecond)
					return nil
				}}
				stop := server.Serve(listener)
				defer stop()
				d := newDestination(t, "smtp://"+listener.Addr().String(), 8, func(d *Destination) { d.limits.fewer = time.Second })
				s, lost := connect(t, d)
				p, _ := s.NewPublisher(n)
				defer p.Close()
				for i, r := range send(t, p, spread(n, 10)...) {
					if r.Outcome != publish.Confirmed {
						t.Errorf("message %d: %s (%v)", i, names[r.Outcome], r.Err)
					}
				}
				if listener.refused.Load() == 0 || lost.Err() != nil {
					t.Errorf("%d refused; lost: %v", listener.refused.Load(), context.Cause(lost))
				}
			})
		}
	}
}
