package servertest

import (
	"context"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"
)

// StartAndStop lets run begin and asks it to end, so many times, each time after another
// moment; after each it calls ended. Run must return nil.
func StartAndStop(tb testing.TB, times int, longest time.Duration, run func(context.Context) error, ended func()) {
	tb.Helper()
	for range times {
		ctx, stop := context.WithCancel(tb.Context())
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()
		// Chance is the point: there is no event to wait for.
		time.Sleep(rand.N(longest))
		stop()
		select {
		case err := <-done:
			if err != nil {
				tb.Fatalf("it ended with %v", err)
			}
		case <-time.After(startTimeout):
			tb.Fatal("it does not end")
		}
		ended()
	}
}

// ProxiedBroker is the shared broker, behind a proxy that knows who is connected.
func ProxiedBroker(tb testing.TB) (*Proxy, string) {
	tb.Helper()
	u, err := url.Parse(BrokerURL(tb))
	if err != nil {
		tb.Fatal(err)
	}
	p := NewProxy(tb, u.Host)
	u.Host = p.Addr()
	return p, u.String()
}
