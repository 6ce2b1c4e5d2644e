package consumer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// gateFixture is a breaker in a bubble of synctest, whose time is virtual.
type gateFixture struct {
	*testing.T
	*gate
	probes    atomic.Int32
	available atomic.Bool // the result of the probe
	began     time.Time
}

func withGate(t *testing.T, test func(c *gateFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &gateFixture{T: t, began: time.Now()}
		c.gate = newGate("mail", func(context.Context) error {
			c.probes.Add(1)
			if c.available.Load() {
				return nil
			}
			return errAway
		}, prometheus.NewGauge(prometheus.GaugeOpts{}))
		test(c)
	})
}

func (c *gateFixture) get() *permit {
	c.Helper()
	t, err := c.enter(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	return t
}

func (c *gateFixture) wantOpen(want bool) {
	c.Helper()
	synctest.Wait()
	if gauge := testutil.ToFloat64(c.closedGauge); c.isOpen() != want || (gauge == 0) != want {
		c.Fatalf("open: %t, the gauge shows %v; want open: %t", c.isOpen(), gauge, want)
	}
}

var errAway = errors.New("it is away")

func TestAGateClosesAtACertainErrorAndOpensAtATrial(t *testing.T) {
	t.Parallel()
	withGate(t, func(c *gateFixture) {
		c.wantOpen(true)
		c.get().fail(t.Context(), errAway)
		c.wantOpen(false)
		c.get().succeed()
		c.wantOpen(true)
		if waited := time.Since(c.began); waited != time.Second {
			c.Errorf("the trial began after %s", waited)
		}
	})
}

func TestTrialsComeOneAtATimeWithGrowingPauses(t *testing.T) {
	t.Parallel()
	withGate(t, func(c *gateFixture) {
		var users sync.WaitGroup
		var trials []time.Duration
		running := 0
		c.get().fail(c.Context(), errAway)
		last := time.Now()
		for range 9 {
			users.Go(func() {
				trial := c.get()
				if !trial.isTrial {
					return // it has opened
				}
				trials = append(trials, time.Since(last)) // only one does this at a time
				if running++; running != 1 {
					c.Errorf("%d trials at once", running)
				}
				time.Sleep(500 * time.Millisecond)
				running--
				last = time.Now()
				if len(trials) == 7 {
					trial.succeed()
				} else {
					trial.fail(c.Context(), errAway)
				}
			})
		}
		users.Wait()
		want := []time.Duration{1, 2, 4, 8, 10, 10, 10}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(trials, want) {
			c.Errorf("pauses %s, want %s", trials, want)
		}
		c.wantOpen(true)
	})
}

func TestWorkFromBeforeTheClosingProvesNothing(t *testing.T) {
	t.Parallel()
	withGate(t, func(c *gateFixture) {
		old := c.get()
		c.get().fail(c.Context(), errAway)
		old.succeed()
		c.wantOpen(false)
		if old.isValid() {
			c.Error("work that began before may still be done")
		}
		late := c.get()
		if !late.isValid() {
			c.Error("the trial may not be done")
		}
		old.fail(c.Context(), errAway) // nor does it end the trial of another
		late.succeed()
		c.wantOpen(true)
	})
}

func TestReleaseLetsAnotherMessageBeTheTrial(t *testing.T) {
	t.Parallel()
	withGate(t, func(c *gateFixture) {
		c.get().fail(c.Context(), errAway)
		trial := c.get()
		began := time.Now()
		next := make(chan *permit)
		go func() { next <- c.get() }()
		synctest.Wait()
		trial.release()
		trial.release()
		(<-next).succeed()
		if waited := time.Since(began); waited != 0 {
			c.Errorf("the next trial waited for %s", waited)
		}
		c.wantOpen(true)
	})
}

func TestEnterAndFailUnclearEndWithTheirContext(t *testing.T) {
	t.Parallel()
	withGate(t, func(c *gateFixture) {
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(c.Context())
		suspect := c.get()
		own := make(chan bool)
		go func() { own <- suspect.failUnclear(ctx, &failureHistory{}, errAway) }()
		synctest.Wait()
		cancel(enough)
		if <-own {
			c.Error("the message is blamed")
		}
		c.wantOpen(true)
		c.get().fail(c.Context(), errAway)
		if _, err := c.enter(ctx); !errors.Is(err, enough) {
			c.Errorf("error %v, want %v", err, enough)
		}
	})
}

func TestTheProbeRunsOnlyWhileNoMessageWaits(t *testing.T) {
	t.Parallel()
	withGate(t, func(c *gateFixture) {
		ctx, stop := context.WithCancel(c.Context())
		var watching sync.WaitGroup
		watching.Go(func() { _ = c.watch(ctx) })
		time.Sleep(time.Minute)
		if n := c.probes.Load(); n != 0 {
			c.Errorf("%d probes while it was open", n)
		}
		var users sync.WaitGroup
		c.failAllUnclear(&users, &failureHistory{}, &failureHistory{}, &failureHistory{})
		users.Wait()
		trial := c.get()
		time.Sleep(time.Minute)
		if n := c.probes.Load(); n != 0 {
			c.Errorf("%d probes during a trial", n)
		}
		trial.release()
		time.Sleep(time.Minute)
		c.wantOpen(false)
		if n := c.probes.Load(); n < 5 || n > 7 {
			c.Errorf("%d probes in a minute", n)
		}
		c.available.Store(true)
		time.Sleep(maxPause)
		c.wantOpen(true)
		c.failAllUnclear(&users, &failureHistory{}, &failureHistory{}) // who was suspect before is forgotten
		c.wantOpen(true)
		stop()
		watching.Wait()
		users.Wait()
	})
}

func TestManyUsersOfAGate(t *testing.T) {
	t.Parallel()
	withGate(t, func(c *gateFixture) {
		var users sync.WaitGroup
		for i := range 60 {
			users.Go(func() {
				var h failureHistory
				for round := range 20 {
					work := c.get()
					time.Sleep(time.Duration(i) * time.Millisecond)
					switch (i + round) % 7 {
					case 0:
						work.fail(c.Context(), errAway)
					case 1:
						_ = work.failUnclear(c.Context(), &h, errAway)
					case 2:
					default:
						work.succeed()
					}
					work.release()
				}
			})
		}
		users.Wait()
		if c.waiting != 0 || c.trying {
			c.Errorf("%d wait, a trial goes on: %t", c.waiting, c.trying)
		}
	})
}
