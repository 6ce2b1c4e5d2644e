package consumer

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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
	t.Parallel()
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
	t.Parallel()
	withBreaker(t, func(c *circuit) {
		var s suspicion
		for _, want := range []time.Duration{1, 2, 4, 8, 15, 15} {
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
	t.Parallel()
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
	t.Parallel()
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
