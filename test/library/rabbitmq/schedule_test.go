package rabbitmq_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers"
)

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
