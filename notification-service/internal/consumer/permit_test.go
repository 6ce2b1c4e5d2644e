package consumer

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// failAllUnclear lets messages meet an unclear error, one after the other. It counts those
// whose own error it is.
func (c *gateFixture) failAllUnclear(users *sync.WaitGroup, messages ...*failureHistory) (own *atomic.Int32) {
	own = &atomic.Int32{}
	for _, s := range messages {
		t := c.get()
		users.Go(func() {
			if t.failUnclear(c.Context(), s, errAway) {
				own.Add(1)
			}
		})
		synctest.Wait()
	}
	return own
}

func TestThreeSuspectsCloseTheGate(t *testing.T) {
	t.Parallel()
	withGate(t, func(c *gateFixture) {
		var users sync.WaitGroup
		c.failAllUnclear(&users, &failureHistory{}, &failureHistory{})
		c.wantOpen(true)
		own := c.failAllUnclear(&users, &failureHistory{})
		c.wantOpen(false)
		users.Wait()
		if own.Load() != 0 || time.Since(c.began) != 0 {
			c.Errorf("%d are blamed after %s", own.Load(), time.Since(c.began))
		}
	})
}

// TestOneMessageAloneIsTriedWithGrowingPauses: there is no evidence against anybody.
func TestOneMessageAloneIsTriedWithGrowingPauses(t *testing.T) {
	t.Parallel()
	withGate(t, func(c *gateFixture) {
		var h failureHistory
		for _, want := range []time.Duration{1, 2, 4, 8, 15, 15} {
			began := time.Now()
			if c.get().failUnclear(c.Context(), &h, errAway) {
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
	t.Parallel()
	withGate(t, func(c *gateFixture) {
		var users sync.WaitGroup
		one, two := &failureHistory{}, &failureHistory{}
		own := c.failAllUnclear(&users, one, two)
		c.get().succeed()
		users.Wait() // both may be tried again at once
		if waited := time.Since(c.began); own.Load() != 0 || waited != 0 {
			c.Errorf("%d are blamed at once, after %s", own.Load(), waited)
		}
		if own := c.failAllUnclear(&users, one, two); own.Load() != 2 {
			c.Errorf("%d are blamed at the second time, want both", own.Load())
		}
		c.failAllUnclear(&users, &failureHistory{}, &failureHistory{}) // the others are forgotten
		c.wantOpen(true)
		users.Wait()
	})
}

func TestAMessageThatIsTriedAgainIsNoNewSuspect(t *testing.T) {
	t.Parallel()
	withGate(t, func(c *gateFixture) {
		var h failureHistory
		var users sync.WaitGroup
		for range 3 {
			c.failAllUnclear(&users, &h)
			users.Wait()
		}
		c.failAllUnclear(&users, &h, &failureHistory{})
		c.wantOpen(true)
		users.Wait()
	})
}
