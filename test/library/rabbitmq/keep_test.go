package rabbitmq_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

func TestACutKeepsTheGrowingPauses(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	proxy, url := b.proxy()
	synctest.Test(t, func(t *testing.T) {
		last, sessions := time.Now(), 0
		ctx, stop := context.WithCancel(t.Context())
		err := rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: url, Name: t.Name()}, func(ctx context.Context, _ *rabbitmq.Session) error {
			pause := time.Since(last)
			if least := time.Duration(sessions) * 140 * time.Millisecond; pause < least {
				t.Errorf("a pause of %s before session %d, want %s at least", pause, sessions, least)
			}
			if sessions++; sessions == 4 {
				stop()
				return nil
			}
			proxy.Cut()
			<-ctx.Done()
			last = time.Now()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestKeepLimitsItsAttemptsToConnect counts the attempts of ten minutes of virtual time, also if each
// takes three seconds, as at a broker that refuses a password.
func TestKeepLimitsItsAttemptsToConnect(t *testing.T) {
	t.Parallel()
	for takes, least := range map[time.Duration]int{0: 5, 3 * time.Second: 4} {
		t.Run(takes.String(), func(t *testing.T) {
			t.Parallel()
			limitsAttempts(t, takes, least)
		})
	}
}

func limitsAttempts(t *testing.T, takes time.Duration, least int) {
	t.Helper()
	proxy := servers.NewProxy(t, "")
	proxy.Refuse(true)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		slowly := func() (string, error) {
			time.Sleep(takes)
			return "amqp://guest:guest@" + proxy.Addr(), ctx.Err()
		}
		go func() {
			ended <- rabbitmq.KeepConnected(ctx, rabbitmq.Config{FreshURL: slowly, Name: t.Name()}, nil)
		}()
		time.Sleep(time.Minute)
		for range 10 {
			before := proxy.Accepted()
			time.Sleep(time.Minute)
			// KeepConnected must reconnect within 15 s of the broker's return, even if the dial takes long.
			if n := proxy.Accepted() - before; n < least || n > 10 {
				t.Errorf("%d attempts in a minute, want %d to 10", n, least)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A broker takes seconds to start, so all cases are in one test.
func TestABrokerThatBlocks(t *testing.T) {
	t.Parallel()
	b := newBlockableBroker(t)
	exchange := b.route()
	b.alarm(true)
	b.testNothingHangs(exchange)
	b.alarm(false)
}

// testNothingHangs makes all calls at the same time, because each of them waits for a timeout.
func (b blockableBroker) testNothingHangs(exchange string) {
	b.Helper()
	full := to(exchange, make([]string, 64)...) // more than the sockets hold
	for i := range full {
		full[i].Body = make([]byte, rabbitmq.MaxBody)
	}
	type attempt struct {
		what  string
		s     session
		ended chan error
	}
	var attempts []attempt
	for what, do := range map[string]func(session, *rabbitmq.Publisher) error{
		"Publish":         func(_ session, p *rabbitmq.Publisher) error { return publish.All(p, full, check.Limit)[0].Err },
		"NewPublisher":    func(s session, _ *rabbitmq.Publisher) error { _, err := s.NewPublisher(1); return err },
		"Deliveries":      func(s session, _ *rabbitmq.Publisher) error { _, err := s.Deliveries(name()); return err },
		"Declare":         func(s session, _ *rabbitmq.Publisher) error { return s.Declare(rabbitmq.Topology{}) },
		"WaitForExchange": func(s session, _ *rabbitmq.Publisher) error { return s.WaitForExchange(s.ctx, exchange, "topic") },
	} {
		_, s, p := b.blockedSession(exchange)
		a := attempt{what, s, make(chan error, 1)}
		go func() { a.ended <- do(s, p) }()
		attempts = append(attempts, a)
	}
	for _, a := range attempts {
		if err := check.Receive(b.T, a.ended, "the end of "+a.what); err == nil {
			b.Errorf("%s: a blocked broker answered", a.what)
		}
		check.Receive(b.T, a.s.ctx.Done(), "the end of the session of "+a.what)
		// Without the deadline, a heartbeat would end the session later.
		if cause := context.Cause(a.s.ctx).Error(); a.what == "Publish" && !strings.Contains(cause, "write") {
			b.Errorf("what was written had no deadline: %s", cause)
		}
	}
}

// blockedSession returns a session that the broker blocks, and a publisher that was opened before.
// After the first publish the broker reads nothing more from the connection.
func (b blockableBroker) blockedSession(exchange string) (keeper, session, *rabbitmq.Publisher) {
	b.Helper()
	k := b.keep(b.url)
	s := k.next()
	p := b.publisher(s, 64)
	publish.All(b.publisher(s, 1), to(exchange, "a"), time.Millisecond)
	check.Await(b.T, "the broker says that it blocks", s.Blocked)
	return k, s, p
}
