package relay

import (
	"math/rand/v2"
	"time"
)

// retryDelay doubles with each attempt up to the cap; the upper half of it is
// chosen by chance, so that events which were refused together do not come back
// together.
func (c Config) retryDelay(attempts int) time.Duration {
	delay := c.RetryCap
	if attempts < 62 {
		if doubled := c.RetryBase << attempts; doubled>>attempts == c.RetryBase && doubled > 0 {
			delay = min(doubled, c.RetryCap)
		}
	}
	return delay/2 + rand.N(delay/2+1) //nolint:gosec // spreads load, hides nothing
}

// maxProbe is the longest pause between two looks whether a queue is bound for a key.
const maxProbe = 15 * time.Second

// unroutableDelay is for an event that no queue is bound for. It grows with the
// event's age, so that a consumer that is only a little late gets its events soon.
func unroutableDelay(ageSeconds float64) time.Duration {
	age := time.Duration(ageSeconds * float64(time.Second))
	return min(max(age/2, time.Second), maxProbe)
}
