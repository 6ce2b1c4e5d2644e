package consumer

import (
	"sync/atomic"
	"time"
)

// clock tells the time of the database without asking it: the replicas' clocks may differ,
// and the database may be away. It counts from what the database last said.
type clock struct{ last atomic.Pointer[reading] }

type reading struct{ database, own time.Time }

func (c *clock) set(now time.Time) { c.last.Store(&reading{now, time.Now()}) }

// now is not known before the database has said it once.
func (c *clock) now() (now time.Time, known bool) {
	last := c.last.Load()
	if last == nil {
		return time.Time{}, false
	}
	return last.database.Add(time.Since(last.own)), true // by the monotonic clock
}
