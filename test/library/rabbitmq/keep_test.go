package rabbitmq_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/rabbitmq"
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
