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

// circuit is a breaker in a bubble of synctest, whose time is virtual.
type circuit struct {
	*testing.T
	*breaker
	probes atomic.Int32
	back   atomic.Bool // what the probe says
	began  time.Time
}

func withBreaker(t *testing.T, test func(c *circuit)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &circuit{T: t, began: time.Now()}
		c.breaker = newBreaker("mail", func(context.Context) error {
			c.probes.Add(1)
			if c.back.Load() {
				return nil
			}
			return errAway
		}, prometheus.NewGauge(prometheus.GaugeOpts{}))
		test(c)
	})
}

func (c *circuit) get() *ticket {
	c.Helper()
	t, err := c.enter(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	return t
}

func (c *circuit) wantOpen(want bool) {
	c.Helper()
	synctest.Wait()
	if gauge := testutil.ToFloat64(c.closed); c.isOpen() != want || (gauge == 0) != want {
		c.Fatalf("open: %t, the gauge shows %v; want open: %t", c.isOpen(), gauge, want)
	}
}

var errAway = errors.New("it is away")

func TestABreakerClosesAtACertainErrorAndOpensAtATrial(t *testing.T) {
	withBreaker(t, func(c *circuit) {
		c.wantOpen(true)
		c.get().fail(t.Context(), errAway)
		c.wantOpen(false)
		c.get().accept()
		c.wantOpen(true)
		if waited := time.Since(c.began); waited != time.Second {
			c.Errorf("the trial began after %s", waited)
		}
	})
}

func TestTrialsComeOneAtATimeWithGrowingPauses(t *testing.T) {
	withBreaker(t, func(c *circuit) {
		var users sync.WaitGroup
		var trials []time.Duration
		running := 0
		c.get().fail(c.Context(), errAway)
		last := time.Now()
		for range 9 {
			users.Go(func() {
				trial := c.get()
				if !trial.trial {
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
					trial.accept()
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

// suspectAll lets messages meet an unclear error, one after the other, and counts those
// that are blamed for it.
func (c *circuit) suspectAll(users *sync.WaitGroup, messages ...*suspicion) (blamed *atomic.Int32) {
	blamed = &atomic.Int32{}
	for _, s := range messages {
		t := c.get()
		users.Go(func() {
			if t.suspect(c.Context(), s, errAway) {
				blamed.Add(1)
			}
		})
		synctest.Wait()
	}
	return blamed
}

func TestThreeDifferentMessagesCloseIt(t *testing.T) {
	withBreaker(t, func(c *circuit) {
		var users sync.WaitGroup
		c.suspectAll(&users, &suspicion{}, &suspicion{})
		c.wantOpen(true)
		blamed := c.suspectAll(&users, &suspicion{})
		c.wantOpen(false)
		users.Wait()
		if blamed.Load() != 0 || time.Since(c.began) != 0 {
			c.Errorf("%d are blamed after %s", blamed.Load(), time.Since(c.began))
		}
	})
}

// TestOneMessageAloneIsTriedWithGrowingPauses: there is no evidence against anybody.
func TestOneMessageAloneIsTriedWithGrowingPauses(t *testing.T) {
	withBreaker(t, func(c *circuit) {
		var s suspicion
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			began := time.Now()
			if c.get().suspect(c.Context(), &s, errAway) {
				c.Error("the message is blamed, and nothing else was tried")
			}
			if waited := time.Since(began); waited != want*time.Second {
				c.Errorf("tried again after %s, want %d s", waited, want)
			}
			c.wantOpen(true)
		}
	})
}

func TestP9AMessageThatFailsAfterAnotherWasAcceptedIsBlamed(t *testing.T) {
	withBreaker(t, func(c *circuit) {
		var users sync.WaitGroup
		ada, eve := &suspicion{}, &suspicion{}
		blamed := c.suspectAll(&users, ada, eve)
		c.get().accept()
		users.Wait() // both may be tried again at once
		if waited := time.Since(c.began); blamed.Load() != 0 || waited != 0 {
			c.Errorf("%d are blamed at once, after %s", blamed.Load(), waited)
		}
		if blamed := c.suspectAll(&users, ada, eve); blamed.Load() != 2 {
			c.Errorf("%d are blamed at the second time, want both", blamed.Load())
		}
		c.suspectAll(&users, &suspicion{}, &suspicion{}) // the others are forgotten
		c.wantOpen(true)
		users.Wait()
	})
}

func TestAMessageThatIsTriedAgainIsNoNewSuspect(t *testing.T) {
	withBreaker(t, func(c *circuit) {
		var s suspicion
		var users sync.WaitGroup
		for range 3 {
			c.suspectAll(&users, &s)
			users.Wait()
		}
		c.suspectAll(&users, &s, &suspicion{})
		c.wantOpen(true)
		users.Wait()
	})
}

func TestWorkFromBeforeTheClosingProvesNothing(t *testing.T) {
	withBreaker(t, func(c *circuit) {
		old := c.get()
		c.get().fail(c.Context(), errAway)
		old.accept()
		c.wantOpen(false)
		if old.valid() {
			c.Error("work that began before may still be done")
		}
		late := c.get()
		if !late.valid() {
			c.Error("the trial may not be done")
		}
		old.fail(c.Context(), errAway) // nor does it end the trial of another
		late.accept()
		c.wantOpen(true)
	})
}

func TestLeaveGivesTheTrialOn(t *testing.T) {
	withBreaker(t, func(c *circuit) {
		c.get().fail(c.Context(), errAway)
		trial := c.get()
		began := time.Now()
		next := make(chan *ticket)
		go func() { next <- c.get() }()
		synctest.Wait()
		trial.leave()
		trial.leave()
		(<-next).accept()
		if waited := time.Since(began); waited != 0 {
			c.Errorf("the next trial waited for %s", waited)
		}
		c.wantOpen(true)
	})
}

func TestEnterAndSuspectEndWithTheirContext(t *testing.T) {
	withBreaker(t, func(c *circuit) {
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(c.Context())
		suspect := c.get()
		own := make(chan bool)
		go func() { own <- suspect.suspect(ctx, &suspicion{}, errAway) }()
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

func TestTheProbeIsAskedOnlyWhileNobodyWaits(t *testing.T) {
	withBreaker(t, func(c *circuit) {
		ctx, stop := context.WithCancel(c.Context())
		var watching sync.WaitGroup
		watching.Go(func() { _ = c.watch(ctx) })
		time.Sleep(time.Minute)
		if n := c.probes.Load(); n != 0 {
			c.Errorf("%d probes while it was open", n)
		}
		var users sync.WaitGroup
		c.suspectAll(&users, &suspicion{}, &suspicion{}, &suspicion{})
		users.Wait()
		trial := c.get()
		time.Sleep(time.Minute)
		if n := c.probes.Load(); n != 0 {
			c.Errorf("%d probes during a trial", n)
		}
		trial.leave()
		time.Sleep(time.Minute)
		c.wantOpen(false)
		if n := c.probes.Load(); n < 5 || n > 7 {
			c.Errorf("%d probes in a minute", n)
		}
		c.back.Store(true)
		time.Sleep(longestPause)
		c.wantOpen(true)
		c.suspectAll(&users, &suspicion{}, &suspicion{}) // who was suspect before is forgotten
		c.wantOpen(true)
		stop()
		watching.Wait()
		users.Wait()
	})
}

func TestManyUsersOfABreaker(t *testing.T) {
	withBreaker(t, func(c *circuit) {
		var users sync.WaitGroup
		for i := range 60 {
			users.Go(func() {
				var s suspicion
				for round := range 20 {
					work := c.get()
					time.Sleep(time.Duration(i) * time.Millisecond)
					switch (i + round) % 7 {
					case 0:
						work.fail(c.Context(), errAway)
					case 1:
						_ = work.suspect(c.Context(), &s, errAway)
					case 2:
					default:
						work.accept()
					}
					work.leave()
				}
			})
		}
		users.Wait()
		if c.waiting != 0 || c.trying {
			c.Errorf("%d wait, a trial goes on: %t", c.waiting, c.trying)
		}
	})
}
