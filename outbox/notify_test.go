package outbox

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// wakerFixture is a waker in a synctest bubble. It counts the notifications.
type wakerFixture struct {
	*testing.T
	waker    *Waker
	notified atomic.Int64
	last     atomic.Int64 // how many commits there were at the last notification
	commits  atomic.Int64
	hang     atomic.Bool // the database does not answer
	stop     func()
	done     chan struct{}
}

func testWaker(notify func(context.Context) error) *Waker {
	w := NewWaker(nil)
	w.Logger, w.notify = quiet, notify
	return w
}

func withWaker(t *testing.T, busy func() bool, test func(f *wakerFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &wakerFixture{T: t, done: make(chan struct{})}
		f.waker = testWaker(f.notify)
		ctx, stop := context.WithCancel(t.Context())
		f.stop = sync.OnceFunc(func() { stop(); <-f.done })
		go func() {
			defer close(f.done)
			if err := f.waker.run(ctx, busy); err != nil {
				t.Error(err)
			}
		}()
		test(f)
		f.stop()
	})
}

func (f *wakerFixture) notify(ctx context.Context) error {
	f.last.Store(f.commits.Load())
	if f.hang.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	f.notified.Add(1)
	return nil
}

func (f *wakerFixture) commit() {
	f.commits.Add(1)
	f.waker.Wake()
}

func (f *wakerFixture) want(notifications int64) {
	f.Helper()
	synctest.Wait()
	if got := f.notified.Load(); got != notifications {
		f.Errorf("%d notifications, want %d", got, notifications)
	}
}

func TestASingleCommitIsNotifiedAtOnce(t *testing.T) {
	t.Parallel()
	withWaker(t, nil, func(f *wakerFixture) {
		for n := range 3 {
			start := time.Now()
			f.commit()
			f.want(int64(n) + 1)
			if took := time.Since(start); took != 0 {
				t.Errorf("it took %s", took)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestManyCommitsAreOneNotificationEach5ms(t *testing.T) {
	t.Parallel()
	const commits, every, most = 10_000, 100 * time.Microsecond, 201 // in a second
	withWaker(t, nil, func(f *wakerFixture) {
		for range commits {
			f.commit()
			time.Sleep(every)
		}
		if got := f.notified.Load(); got < most/2 || got > most {
			t.Errorf("%d notifications of %d commits in a second, want at most %d", got, commits, most)
		}
		for range 3 { // the last one comes during a pause
			f.commit()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		if f.last.Load() != f.commits.Load() {
			t.Error("there was no notification after the last commits")
		}
	})
}

// TestNoCommitWaitsForANotification uses a database that does not answer. The end waits for the
// notification that hangs, and for one more.
func TestNoCommitWaitsForANotification(t *testing.T) {
	t.Parallel()
	withWaker(t, nil, func(f *wakerFixture) {
		f.hang.Store(true)
		start := time.Now()
		for range 100 {
			f.commit()
			synctest.Wait()
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the commits waited for %s", took)
		}
		f.stop()
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the end took %s", took)
		}
		f.want(0)
	})
}

func TestOthersAreNotifiedOnlyIfTheOwnRelayIsBusy(t *testing.T) {
	t.Parallel()
	for busy, notifications := range map[bool]int64{false: 0, true: 1} {
		withWaker(t, func() bool { return busy }, func(f *wakerFixture) {
			f.commit()
			f.want(0)
			time.Sleep(20 * time.Millisecond)
			f.want(notifications)
		})
	}
}

// TestTheLastCommitIsNotified, whatever the waker does when it has to stop: it pauses after a
// notification, or waits for the relay of this process, which claims nothing more. It does so many
// times, because the waker may notice the stop before the commit or after it.
func TestTheLastCommitIsNotified(t *testing.T) {
	t.Parallel()
	for range 50 {
		for _, busy := range []func() bool{nil, func() bool { return false }} {
			withWaker(t, busy, func(f *wakerFixture) {
				f.commit()
				synctest.Wait()
				f.commit()
				f.stop()
				f.want(2)
			})
		}
	}
}

func TestAFailedNotificationIsTriedAgainEachSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const failures = 3
		start, tries := time.Now(), 0
		n := testWaker(func(context.Context) error {
			tries++
			if took := time.Since(start); took != time.Duration(tries-1)*notifyPause {
				t.Errorf("try %d after %s", tries, took)
			}
			if tries <= failures {
				return errors.New("away")
			}
			return nil
		})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		n.Wake()
		if err := n.Run(ctx); err != nil || tries != failures+1 {
			t.Errorf("%d tries, want %d; error %v", tries, failures+1, err)
		}
	})
}
