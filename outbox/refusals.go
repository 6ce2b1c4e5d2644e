package outbox

import (
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// refusals finds out whether a refusal is about the event or about the whole broker. A full queue
// refuses an event, and a cluster that has lost its majority refuses all events. One refusal looks
// the same in both cases. So a refusal counts against the event only if the broker has accepted
// another event since it last refused this one.
//
// When the broker has refused events of several aggregates and has accepted none, it is an outage.
// Then the relay only probes: it publishes one event of each topic, at growing pauses. It postpones
// the other events of these topics. So it soon reaches an event of another topic, which the broker
// may accept.
type refusals struct {
	mu      sync.Mutex
	refused map[uuid.UUID]refusal // the events that the broker refused and has not accepted since
	taken   time.Time             // the start of the last batch with an event that it accepted
	streak  int                   // how many different events it has refused since it accepted one
	first   time.Time             // the start of the streak
	last    time.Time             // its last refusal
	pause   time.Duration         // between two probes; 0 if there is no outage
	probe   time.Time             // when the next probe is due
	probed  map[string]bool       // the topics of this probe
	left    int                   // how many batches this probe may still read
	pruned  time.Time             // when old refusals were last deleted
	log     *lines
}

// refusal has what the relay remembers of an event's refusals.
type refusal struct {
	at    time.Time // of the last one
	times int
}

const (
	// outageStreak is how many events in a row the broker must refuse. Each is of another
	// aggregate, because the later events of an aggregate wait for the first.
	outageStreak = 5
	// outageDelay is how long it must refuse them. Until then the relay retries each of them.
	outageDelay = 2 * time.Second

	// The pause between two probes doubles from the first to the last.
	firstProbePause = 250 * time.Millisecond
	lastProbePause  = 10 * time.Second
	// probedAgain is how much later than the others of its topic a refused event is due. So the
	// next probe begins with another one of the topic, which the broker may accept.
	probedAgain = time.Millisecond
	// probeBatches is how many batches of due events a probe reads at most. Each batch costs writes
	// to the database.
	probeBatches = 20

	// refusalMemory is how long the relay remembers a refusal. It never hears of an event that
	// another relay has published.
	refusalMemory = time.Hour
	// maxRefused bounds the memory. Beyond it the relay forgets all of them.
	maxRefused = 100_000
	// outageMemory is how long after the last refusal the relay still assumes an outage.
	outageMemory = time.Minute
)

// verdict says what follows from a refusal.
type verdict struct {
	counts bool          // as an attempt of the event
	delay  time.Duration // until the next try, if it does not count
}

// update records the outcomes of a batch, which the relay began to publish at began. It returns a
// verdict for each refused event.
func (r *refusals) update(events []store.Event, results []publish.Result, began time.Time) map[uuid.UUID]verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	verdicts, now, takes := map[uuid.UUID]verdict{}, time.Now(), false
	for i, e := range events {
		switch results[i].Outcome {
		case publish.Confirmed:
			takes = true
			delete(r.refused, e.ID)
		case publish.Refused:
			verdicts[e.ID] = r.refuse(e.ID, now)
		default: // this outcome does not show whether queues accept events
		}
	}
	switch {
	case takes:
		r.end(began)
	case r.pause == 0 && r.streak >= outageStreak && now.Sub(r.first) >= outageDelay:
		r.begin(now)
	}
	r.forget(now)
	for id, v := range verdicts {
		if r.pause > 0 {
			v.delay = max(v.delay, r.pause+probedAgain) // it becomes due with the next probe
		}
		verdicts[id] = v
	}
	return verdicts
}

// refuse records that the broker refused an event.
func (r *refusals) refuse(id uuid.UUID, now time.Time) verdict {
	last, again := r.refused[id]
	if r.streak == 0 {
		r.first = now
	}
	if r.streak == 0 || last.at.Before(r.first) {
		r.streak++
	}
	r.last = now
	r.refused[id] = refusal{at: now, times: last.times + 1}
	return verdict{
		counts: again && r.taken.After(last.at) && r.pause == 0,
		delay:  min(firstProbePause<<min(last.times, 10), lastProbePause),
	}
}

// end records that the broker accepted an event. It ends an outage.
func (r *refusals) end(began time.Time) {
	if began.After(r.taken) {
		r.taken = began
	}
	if r.pause > 0 {
		r.log.Info("the broker takes events again")
	}
	r.streak, r.pause = 0, 0
}

// begin begins an outage: the broker refuses everything.
func (r *refusals) begin(now time.Time) {
	r.log.Error("the broker refuses every event, so the relay only probes and spends no attempts", "refused", r.streak)
	r.pause, r.probe = firstProbePause, now.Add(firstProbePause)
	r.probed, r.left = map[string]bool{}, 0 // other workers may have claimed a batch already
}

// forget deletes refusals that are older than refusalMemory.
func (r *refusals) forget(now time.Time) {
	if len(r.refused) > maxRefused {
		clear(r.refused)
	}
	if now.Sub(r.pruned) > outageMemory {
		r.pruned = now
		maps.DeleteFunc(r.refused, func(_ uuid.UUID, last refusal) bool { return now.Sub(last.at) > refusalMemory })
	}
}

// wait returns how long a worker must wait before it claims. It is 0 without an outage, and during
// a probe.
func (r *refusals) wait(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) > outageMemory {
		r.streak, r.pause = 0, 0
	}
	if r.pause > 0 && !now.Before(r.probe) {
		r.pause = min(2*r.pause, lastProbePause)
		r.probe, r.probed, r.left = now.Add(r.pause), map[string]bool{}, probeBatches
	}
	if r.pause == 0 || r.left > 0 {
		return 0
	}
	return r.probe.Sub(now)
}

// split returns the events to publish: all of them, or in an outage one of each topic. The others
// become due with the next probe.
func (r *refusals) split(events []store.Event) (publish []store.Event, wait []store.Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pause == 0 {
		return events, nil
	}
	r.left = max(0, r.left-1)
	for _, e := range events {
		if r.probed[e.Topic] {
			wait = append(wait, store.Failure{ID: e.ID, Delay: r.pause, Code: "refused", Reason: "the broker refuses every event"})
			continue
		}
		r.probed[e.Topic] = true
		publish = append(publish, e)
	}
	return publish, wait
}

// all reports whether the broker refuses every event, which is an outage.
func (r *refusals) all() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pause > 0
}
