package outbox

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/outbox/internal/relay"
	"example.com/transactional-outbox/outbox/internal/store"
)

// Stats is what a relay has done since it was made. Package prom reports it to Prometheus.
type Stats struct {
	Published, Failed, Superseded uint64 // events that are done, or failed
	Retries                       uint64 // refused publishes, and publishes without an answer
	RetryExhaustions              uint64 // events that failed because the destination refused them for too long
	Refused                       uint64 // publishes that the destination refused
	Unroutable                    uint64 // publishes that the destination returned
	PublishErrors                 uint64 // publishes with an unknown outcome
	LeaseLost                     uint64 // events that this relay no longer held when it settled them
	DeletionErrors                uint64 // how often it could not delete what is older than Retention; it tries each minute

	// NoAnswer is how long ago a destination that answers one by one has answered, although
	// messages wait, or how long ago the publisher got the oldest message whose call is overdue. 0:
	// it answers.
	NoAnswer time.Duration

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

// Stats returns what the relay has done so far.
func (r *Relay) Stats() Stats {
	c := r.relay.Counters()
	l := Histogram{Bounds: c.Latency.Bounds, Counts: c.Latency.Counts, Sum: c.Latency.Sum}
	for _, e := range c.Latency.Exemplars {
		l.Exemplars = append(l.Exemplars, Exemplar(e))
	}
	return Stats{
		Published: c.Published, Failed: c.Failed, Superseded: c.Superseded, Retries: c.Retries,
		RetryExhaustions: c.RetryExhaustions, Refused: c.Refused, Unroutable: c.Unroutable,
		PublishErrors: c.PublishErrors, LeaseLost: c.LeaseLost, DeletionErrors: c.DeletionErrors,
		NoAnswer: r.relay.NoAnswer(), Up: r.relay.Up(), Listening: r.listener.isListening.Load(),
		Latency: l, Claims: Timing(c.Claims), Marks: Timing(c.Marks),
	}
}

// Backlog counts the events that are not done. Above 200,000 the numbers are estimates.
func (r *Relay) Backlog(ctx context.Context) (Backlog, error) {
	b, err := r.store.Backlog(ctx, store.CountLimit)
	return Backlog(b), err
}

// Backlog has the numbers of events that are not done.
type Backlog struct {
	Pending, InProgress, Failed int     // events with this status
	Paused                      int     // pending events whose topic is paused
	PausedTopics                int     // also those that an operator has paused
	OldestDue                   float64 // seconds since the oldest due event became due; 0 if none is due
	OldestRefused               float64 // seconds for which a pending event has been refused; 0 if none is
	// OldestUnfinished is in seconds since the oldest event was due, or replayed, that is not done
	// and has not failed, whatever it waits for; 0 if there is none.
	OldestUnfinished float64
}

// ErrNoDatabase is wrapped by the error of [Relay.Health] while the relay cannot use the database:
// it does not answer, takes no writes, or refuses a statement. The error says which.
var ErrNoDatabase = relay.ErrNoDatabase

// Health returns nil if the relay can publish, and otherwise an error that says what it waits for.
// A paused topic is no error, because the others go on. But a destination that answers one by one
// ([publish.OneByOne]) is named when messages wait and it has answered nothing for 5 s, or for as
// long as its method AnswersWithin says. So is a call of [publish.Func] that is overdue. Health
// reads only memory, so you can call it often. Use it as the readiness of a process that only
// relays. Do not use it if the process also serves requests: these work without the destination.
// Without a session, it says since when, and the error that the destination's method LastError
// returns, if there is one.
func (r *Relay) Health() error {
	if !r.running.Load() {
		return errors.New("the relay does not run")
	}
	return r.relay.Health()
}
