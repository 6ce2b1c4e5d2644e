package rabbitmq

import (
	"sync/atomic"
	"time"
)

// clock gives the handler's time without asking it: the database may be away. It adds the time
// since the last reading to that reading.
type clock struct{ last atomic.Pointer[reading] }

type reading struct{ handler, local time.Time }

func (c *clock) set(now time.Time) { c.last.Store(&reading{now, time.Now()}) }

// now is unknown before the first call of set.
func (c *clock) now() (now time.Time, known bool) {
	last := c.last.Load()
	if last == nil {
		return time.Time{}, false
	}
	return last.handler.Add(time.Since(last.local)), true // by the monotonic clock
}
