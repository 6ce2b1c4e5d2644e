package page

import (
	"sync"
	"time"
)

// Rate computes how fast a total grows, from two samples at least a second apart.
type Rate struct {
	mu       sync.Mutex
	total    int64
	at       time.Time
	previous float64
}

// PerSecond returns how fast the total has grown since an earlier call, or [Unknown].
func (r *Rate) PerSecond(total int64, now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	elapsed := now.Sub(r.at)
	switch {
	case r.at.IsZero() || elapsed > maxSampleAge || total < r.total:
		r.previous = Unknown
	case elapsed < minSampleAge:
		return r.previous
	default:
		r.previous = float64(total-r.total) / elapsed.Seconds()
	}
	r.total, r.at = total, now
	return r.previous
}

const (
	minSampleAge = 900 * time.Millisecond // a tick of the sampler may come a little early
	maxSampleAge = time.Minute            // a rate over a longer time would hide what happens now
)
