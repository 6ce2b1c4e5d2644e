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
			slow   int  // events of silent topics
			lost   bool // several events, before the batch
			took   time.Duration
			waited int
			limit  int
		}{
			{took: time.Millisecond, waited: 1, limit: 2},
			{took: time.Millisecond, waited: 1, limit: 2}, // nobody knows about more
			{took: 2 * time.Second, waited: 2, limit: 4},
			{took: 4 * time.Second, waited: 4, limit: 4},             // 12 would need 12 s
			{took: time.Second, waited: 20, limit: 20},               // the most
			{lost: true, took: 9 * time.Second, waited: 1, limit: 2}, // 2 need no more than 1
			{slow: 7, took: 20 * time.Second, waited: 1, limit: 8},
			{lost: true, took: 20 * time.Second, waited: 1, limit: 1}, // the seven were there before
		} {
			if step.lost {
				p.restart(1)
			}
			p.change(places{}, places{slow: step.slow})
			time.Sleep(time.Nanosecond)
			sent := time.Now()
			time.Sleep(step.took)
			p.answered(sent, step.waited)
			if _, limit := p.room(); limit != step.limit {
				t.Errorf("step %d: the limit is %d, want %+v", i, limit, step)
			}
		}
	})
}
