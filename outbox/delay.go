package outbox

import (
	"math/rand/v2"
	"time"
)

// retryDelay doubles with each attempt, up to the cap. Half of it is random, so that events
// that were refused together are not all tried again at the same time.
func (c RelayConfig) retryDelay(attempts int) time.Duration {
	delay := c.RetryCap
	if attempts < 62 {
		if doubled := c.RetryBase << attempts; doubled>>attempts == c.RetryBase && doubled > 0 {
			delay = min(doubled, c.RetryCap)
		}
	}
	return delay/2 + rand.N(delay/2+1) //nolint:gosec // it spreads load and needs no secrecy
}

// maxProbe is the longest pause between two probes whether a queue is bound for a topic.
const maxProbe = 15 * time.Second

// unroutableDelay is the delay of an event for which no queue is bound. It grows with the
// event's age, so that a consumer that starts only a little late gets its events soon.
func unroutableDelay(ageSeconds float64) time.Duration {
	age := time.Duration(ageSeconds * float64(time.Second))
	return min(max(age/2, time.Second), maxProbe)
}
