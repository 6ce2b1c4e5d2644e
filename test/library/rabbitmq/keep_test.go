package rabbitmq_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

func TestWorkInFlightIsFinishedAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	exchange, queue := b.route()
	begun, results := make(chan struct{}), make(chan []publish.Result, 1)
	end := b.run(b.url, func(ctx context.Context, s *rabbitmq.Session) error {
		p, err := s.NewPublisher(1)
		if err != nil {
			return err
		}
		close(begun)
		<-ctx.Done()
		results <- publish.All(p, to(exchange, "last"), check.Limit)
		return nil
	})
	check.Receive(t, begun, "the work")
	if err := end(); err != nil {
		t.Error(err)
	}
	expect(t, check.Receive(t, results, "the results of Publish"), publish.Confirmed)
	b.get(queue)
}

func TestAServerThatNeverAnswersDoesNotHangKeepConnected(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	proxy, url := b.proxy()
	proxy.Stall()
	k := b.keep(url)
	check.Await(t, "KeepConnected gives up and tries again", func() bool { return proxy.Accepted() >= 2 })
	proxy.Resume()
	k.next()
}

func TestKeepReturnsNilAfterItsContext(t *testing.T) {
	t.Parallel()
	for what, prepare := range map[string]func(brokerTest) keeper{
		"before it began": func(b brokerTest) keeper { return b.keep(b.url) },
		"with a session": func(b brokerTest) keeper {
			k := b.keep(b.url)
			k.next()
			return k
		},
		"while it waits to try again": func(b brokerTest) keeper {
			proxy, url := b.proxy()
			proxy.Refuse(true)
			k := b.keep(url)
			check.Await(b.T, "an attempt", func() bool { return proxy.Accepted() >= 4 })
			return k
		},
		"in the handshake": func(b brokerTest) keeper {
			proxy, url := b.proxy()
			proxy.Stall()
			k := b.keep(url)
			check.Await(b.T, "an attempt", func() bool { return proxy.Accepted() >= 1 })
			return k
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if err := prepare(newBrokerTest(t)).end(); err != nil {
				t.Error(err)
			}
		})
	}
}

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

// TestReconnects200TimesAndLeavesNothingBehind ends every second session by a cut. The others end
// because use returns an error, as it does when a queue is deleted. Then KeepConnected must close
// the connection. The pauses use virtual time. The proxy is in this process, so an open connection
// would show as a goroutine as well.
func TestReconnects200TimesAndLeavesNothingBehind(t *testing.T) { //nolint:paralleltest // it counts goroutines
	const reconnects = 200
	b := newBrokerTest(t)
	_, queue := b.route()
	proxy, url := b.proxy()
	before := goleak.IgnoreCurrent()
	ask := time.NewTicker(10 * time.Millisecond) // by the real clock
	defer ask.Stop()
	// A connection that is left open would stop the virtual clock, and a failed test would not end.
	late := make(chan struct{})
	defer time.AfterFunc(check.Limit, func() {
		close(late)
		proxy.Refuse(true)
		proxy.Cut()
	}).Stop()
	synctest.Test(t, func(t *testing.T) {
		inside := brokerTest{t, b.url, b.conn}
		sessions, fail := make(chan session), make(chan error)
		end := inside.run(url, func(ctx context.Context, s *rabbitmq.Session) error {
			sessions <- session{s, ctx}
			select {
			case err := <-fail:
				return err
			case <-ctx.Done():
				return nil
			}
		})
		use := func() {
			s := check.Receive(t, sessions, "a session")
			inside.publisher(s, 1)
			inside.consume(s, queue, 1)
		}
		use()
		running := runtime.NumGoroutine()
		for i := range reconnects {
			if i%2 == 0 {
				proxy.Cut()
			} else {
				fail <- errors.New("the queue is gone")
			}
			use()
		}
		for runtime.NumGoroutine() > running {
			select {
			case <-ask.C:
			case <-late:
				t.Fatalf("%d goroutines, and %d before the reconnects", runtime.NumGoroutine(), running)
			}
		}
		if got := proxy.Accepted(); got != 1+reconnects {
			t.Errorf("%d connections for %d sessions", got, 1+reconnects)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	goleak.VerifyNone(t, before)
}

// TestKeepLimitsItsAttemptsToConnect counts the attempts of ten minutes of virtual time.
func TestKeepLimitsItsAttemptsToConnect(t *testing.T) {
	t.Parallel()
	proxy := servers.NewProxy(t, "")
	proxy.Refuse(true)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: "amqp://guest:guest@" + proxy.Addr(), Name: t.Name()}, nil)
		}()
		time.Sleep(time.Minute)
		for range 10 {
			before := proxy.Accepted()
			time.Sleep(time.Minute)
			// KeepConnected must reconnect within 15 s of the broker's return, even if the dial takes long.
			if n := proxy.Accepted() - before; n < 5 || n > 10 {
				t.Errorf("%d attempts in a minute, want 5 to 10", n)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
