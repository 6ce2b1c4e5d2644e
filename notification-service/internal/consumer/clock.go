package consumer

import (
	"sync/atomic"
	"time"
)

// clock gives the database's time without a query: the replicas' clocks may differ, and the
// database may be away. It adds the time since the last reading to that reading.
type clock struct{ last atomic.Pointer[reading] }

type reading struct{ database, local time.Time }

func (c *clock) set(now time.Time) { c.last.Store(&reading{now, time.Now()}) }

// now is unknown before the first call of set.
func (c *clock) now() (now time.Time, known bool) {
	last := c.last.Load()
	if last == nil {
		return time.Time{}, false
	}
	return last.database.Add(time.Since(last.local)), true // by the monotonic clock
}
