package rabbitmq_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

// TestReconnects200TimesAndLeavesNothingBehind ends every second session by a cut. The others end
// because use returns an error, as it does when a queue is deleted. Then KeepConnected must close
// the connection. The pauses use virtual time. The proxy is in this process, so an open connection
// would show as a goroutine as well.
func TestReconnects200TimesAndLeavesNothingBehind(t *testing.T) { //nolint:paralleltest // it counts goroutines
	const reconnects = 200
	b := newBrokerTest(t)
	_, queue := b.route("#", nil)
	proxy, url := b.proxy()
	before := goleak.IgnoreCurrent()
	ask := time.NewTicker(10 * time.Millisecond) // by the real clock
	defer ask.Stop()
	// A connection that is left open would stop the virtual clock, and a failed test would not end.
	late := make(chan struct{})
	defer time.AfterFunc(testTimeout, func() {
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
			s := receive(t, sessions, "a session")
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
