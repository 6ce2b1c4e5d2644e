package rabbitmq_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/servertest"
)

// TestKeepSparesABrokerThatIsAway counts the attempts of many minutes, whose pauses
// take no time here.
func TestKeepSparesABrokerThatIsAway(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, "")
	proxy.Refuse(true)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- rabbitmq.Keep(ctx, rabbitmq.Config{URL: "amqp://guest:guest@" + proxy.Addr(), Name: t.Name()}, nil)
		}()
		time.Sleep(time.Minute)
		for range 10 {
			before := proxy.Accepted()
			time.Sleep(time.Minute)
			// It is to be found back within 15 s, even when the dial takes a while.
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
