package relay

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestP4TheWindowFollowsTheAnswers: each step is a batch that has waited for its answers.
func TestP4TheWindowFollowsTheAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := testConfig
		config.Window = 20
		config = config.withDefaults()
		p := newPace(&config)
		for i, step := range []struct {
			silent int  // times, before the batch
			lost   bool // several events, before the batch
			took   time.Duration
			waited int
			limit  int
		}{
			{took: time.Millisecond, waited: 1, limit: 2},
			{took: time.Millisecond, waited: 1, limit: 2}, // nobody knows about more
			{took: 2 * time.Second, waited: 2, limit: 4},
			{took: 6 * time.Second, waited: 4, limit: 4},             // 8 would need 12 s
			{took: time.Second, waited: 20, limit: 20},               // the most
			{lost: true, took: 9 * time.Second, waited: 1, limit: 2}, // 2 need no more than 1
			{silent: 2, took: 20 * time.Second, waited: 1, limit: 8},
		} {
			if step.lost {
				p.slow()
			}
			for range step.silent {
				time.Sleep(time.Nanosecond)
				p.silent(time.Now())
			}
			time.Sleep(time.Nanosecond)
			sent := time.Now()
			time.Sleep(step.took)
			p.answered(sent, step.waited, true)
			if _, limit := p.room(); limit != step.limit {
				t.Errorf("step %d: the limit is %d, want %+v", i, limit, step)
			}
		}
	})
}
