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
			isSilent bool // before the batch
			times    int  // 0 is once
			took     time.Duration
			waited   int
			limit    int
			patience time.Duration
		}{
			{took: time.Millisecond, waited: 1, limit: 2, patience: time.Second},
			{took: time.Millisecond, waited: 1, limit: 2, patience: time.Second}, // nobody knows about more
			{took: 2 * time.Second, waited: 2, limit: 4, patience: time.Second},
			{took: 6 * time.Second, waited: 4, limit: 4, patience: time.Second}, // 8 would need 12 s
			{took: time.Second, waited: 20, limit: 20, patience: time.Second},   // the most
			{isSilent: true, took: 9 * time.Second, waited: 1, limit: 2, patience: 2 * time.Second},
			{isSilent: true, took: 9 * time.Second, waited: 1, limit: 2, patience: 4 * time.Second},
			{took: 9 * time.Second, waited: 2, limit: 4, patience: 4 * time.Second},
			{took: time.Millisecond, waited: 1, limit: 4, patience: time.Second},
			{isSilent: true, times: 100, took: 9 * time.Second, waited: 1, limit: 2, patience: 10 * time.Second},
		} {
			for range max(step.times, 1) {
				time.Sleep(time.Nanosecond)
				if step.isSilent {
					p.silent(time.Now())
				}
			}
			time.Sleep(time.Nanosecond)
			sent := time.Now()
			time.Sleep(step.took)
			p.answered(sent, step.waited, true)
			if _, limit := p.room(); limit != step.limit || p.silenceLimit() != step.patience {
				t.Errorf("step %d: the limit is %d, and silence begins after %s, want %+v", i, limit, p.silenceLimit(), step)
			}
		}
	})
}
