package outbox

import (
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// Stats is what a relay has done since it was made. Package prom reports it to Prometheus.
type Stats struct {
	Published, Failed, Overtaken uint64 // events that are done, or failed
	Retries                      uint64 // refused publishes, and publishes without an answer
	RetryExhaustions             uint64 // events that failed because the destination refused them for too long
	Refused                      uint64 // publishes that the destination refused
	Unroutable                   uint64 // publishes that the destination returned
	PublishErrors                uint64 // publishes with an unknown outcome
	LeaseLost                    uint64 // events that another relay had claimed meanwhile
	DeadLettered                 uint64 // failed events that have a copy at the dead letters
	DeadLettersFailed            uint64 // failed events that should have one, and have none

	Up        bool // the relay has a session with the destination
	Listening bool // it is notified of events that other processes commit

	// Latency is in seconds, from the start of the transaction that appended the event to the
	// confirm. It begins there because PostgreSQL does not say when a transaction commits.
	Latency Histogram
	// Claims and Marks are the statements that each batch costs the database: one finds what is due
	// and reads it, and the other one records what is published. Only those that succeeded count.
	Claims, Marks Timing
}

// Timing is how often something was done, and how long all of it took together.
type Timing struct {
	Count   uint64
	Seconds float64
}

// Histogram counts values, each in the first bucket whose bound is not smaller.
type Histogram struct {
	Bounds    []float64  // of the buckets, in ascending order. One more bucket has all larger values
	Counts    []uint64   // of each bucket, so one more than Bounds
	Sum       float64    // of all values
	Exemplars []Exemplar // at most one for each bucket
}

// Exemplar is a value of a histogram, and the trace that it comes from.
type Exemplar struct {
	Value   float64
	At      time.Time
	TraceID string
}

// counters are what Stats is a copy of.
type counters struct {
	published, failed, overtaken     atomic.Uint64
	retries, exhaustions             atomic.Uint64
	refused, unroutable              atomic.Uint64
	publishErrors, leaseLost         atomic.Uint64
	deadLettered, deadLettersMissing atomic.Uint64
	sessions                         atomic.Int64
	listening                        atomic.Bool
	latency                          histogram
	claims, marks                    timing
}

// Stats returns what the relay has done so far.
func (r *Relay) Stats() Stats {
	c := &r.counters
	return Stats{
		Published: c.published.Load(), Failed: c.failed.Load(), Overtaken: c.overtaken.Load(),
		Retries: c.retries.Load(), RetryExhaustions: c.exhaustions.Load(),
		Refused: c.refused.Load(), Unroutable: c.unroutable.Load(),
		PublishErrors: c.publishErrors.Load(), LeaseLost: c.leaseLost.Load(),
		DeadLettered: c.deadLettered.Load(), DeadLettersFailed: c.deadLettersMissing.Load(),
		Up: c.sessions.Load() > 0, Listening: c.listening.Load(),
		Latency: c.latency.snapshot(), Claims: c.claims.snapshot(), Marks: c.marks.snapshot(),
	}
}

// timing has a lock, because its two numbers belong together.
type timing struct {
	mu  sync.Mutex
	sum Timing
}

func (t *timing) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Count++
	t.sum.Seconds += d.Seconds()
}

func (t *timing) snapshot() Timing {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum
}

// The buckets of the latency are 1 ms, 2.5 ms … 24 s. Longer is an outage.
const (
	firstBound = 0.001
	boundRatio = 2.5
	bounds     = 12
)

var latencyBounds = func() (all [bounds]float64) {
	for i, bound := 0, firstBound; i < bounds; i++ {
		all[i] = bound
		bound *= boundRatio
	}
	return all
}()

// histogram counts without a lock.
type histogram struct {
	counts    [bounds + 1]atomic.Uint64
	exemplars [bounds + 1]atomic.Pointer[Exemplar]
	sum       atomic.Uint64 // the bits of a float64
}

// observe counts a value. Of a value with a trace, it keeps the trace.
func (h *histogram) observe(value float64, traceID string) {
	bucket := sort.SearchFloat64s(latencyBounds[:], value)
	h.counts[bucket].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+value)) {
			break
		}
	}
	if traceID != "" {
		h.exemplars[bucket].Store(&Exemplar{Value: value, At: time.Now(), TraceID: traceID})
	}
}

func (h *histogram) snapshot() Histogram {
	s := Histogram{Bounds: slices.Clone(latencyBounds[:]), Counts: make([]uint64, bounds+1), Sum: math.Float64frombits(h.sum.Load())}
	for i := range h.counts {
		s.Counts[i] = h.counts[i].Load()
		if e := h.exemplars[i].Load(); e != nil {
			s.Exemplars = append(s.Exemplars, *e)
		}
	}
	return s
}
