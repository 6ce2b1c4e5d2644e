package relay

import (
	"slices"
	"sort"
	"sync"
	"time"
)

// Counters are what a relay has done. outbox.Stats explains them.
type Counters struct {
	Published, Failed, Superseded, Retries, RetryExhaustions      uint64
	Refused, Unroutable, PublishErrors, LeaseLost, DeletionErrors uint64
	Latency                                                       Histogram
	Claims, Marks                                                 Timing
}

// Timing is how often something was done, and how long all of it took together.
type Timing struct {
	Count   uint64
	Seconds float64
}

// Histogram counts values. A bucket may have an exemplar.
type Histogram struct {
	Bounds    []float64
	Counts    []uint64
	Sum       float64
	Exemplars []Exemplar
}

// Exemplar is a value, and the trace that it comes from, if there is one.
type Exemplar struct {
	Value   float64
	At      time.Time
	TraceID string
}

// counters are those of a relay.
type counters struct {
	mu  sync.Mutex
	all Counters
}

func newCounters() *counters { return &counters{all: Counters{Latency: newLatency()}} }

// count changes the counters.
func (c *counters) count(change func(all *Counters)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.all)
}

// Counters returns a copy of what the relay has counted.
func (r *Relay) Counters() Counters { return r.report.copy() }

// DeletionFailed counts what the janitor reports.
func (r *Relay) DeletionFailed() { r.report.count(func(all *Counters) { all.DeletionErrors++ }) }

func (c *counters) copy() Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	all.Latency.Counts = slices.Clone(all.Latency.Counts)
	all.Latency.Exemplars = slices.DeleteFunc(slices.Clone(all.Latency.Exemplars), func(e Exemplar) bool { return e.TraceID == "" })
	return all
}

func (t *Timing) add(d time.Duration) {
	t.Count++
	t.Seconds += d.Seconds()
}

// newLatency has the bounds 1 ms, 2.5 ms … 24 s. Longer is an outage.
func newLatency() Histogram {
	const first, ratio, bounds = 0.001, 2.5, 12
	h := Histogram{Counts: make([]uint64, bounds+1), Exemplars: make([]Exemplar, bounds+1)}
	for bound := first; len(h.Bounds) < bounds; bound *= ratio {
		h.Bounds = append(h.Bounds, bound)
	}
	return h
}

// observe counts a value. Of a value with a trace, it keeps the trace.
func (h *Histogram) observe(value float64, traceID string) {
	bucket := sort.SearchFloat64s(h.Bounds, value)
	h.Counts[bucket]++
	h.Sum += value
	if traceID != "" {
		h.Exemplars[bucket] = Exemplar{Value: value, At: time.Now(), TraceID: traceID}
	}
}
