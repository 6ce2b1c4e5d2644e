package store

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// TestP7ModelOfManyRelays takes random steps with three relays: they claim, publish with any
// outcome, settle late or never, and lose their leases; operators replay and discard; newer events
// overtake older ones; the ring turns. After each step the destination must have received the
// versions of every aggregate in order. At the end, all events must be published, discarded or
// overtaken, and none may be lost. All runs together must take each transition between the states.
func TestP7ModelOfManyRelays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	taken := transitions{}
	rapid.Check(t, func(r *rapid.T) {
		f.exec(`DELETE FROM outbox_events; DELETE FROM outbox_queue; DELETE FROM outbox_claims; DELETE FROM outbox_topics;
			DELETE FROM outbox_published; DELETE FROM outbox_discarded`)
		m := &model{fixture: f, broker: newBroker(), events: map[uuid.UUID]bool{}, taken: taken}
		r.Repeat(map[string]func(*rapid.T){
			"":          m.check,
			"append":    m.append,
			"supersede": m.supersede,
			"claim":     m.claim,
			"publish": func(r *rapid.T) {
				m.publish(r, m.pick(r, func(w relay) bool { return len(w.Events) > 0 && !w.published }))
			},
			"settle":         func(r *rapid.T) { m.settle(r, m.pick(r, func(w relay) bool { return w.published })) },
			"crash":          func(r *rapid.T) { *m.pick(r, func(w relay) bool { return len(w.Events) > 0 }) = relay{} },
			"whole pass":     m.pass,
			"another pass":   m.pass,
			"leases end":     func(*rapid.T) { m.endLeases() },
			"back-offs end":  func(*rapid.T) { m.exec(endBackOffs) },
			"replay":         func(r *rapid.T) { must(r, m.decide(replaySQL, m.failed(r)...)) },
			"discard":        func(r *rapid.T) { must(r, m.decide(discardSQL, m.failed(r)...)) },
			"late confirm":   m.lateConfirm,
			"the ring turns": m.turn,
			"pauses end":     func(*rapid.T) { m.endPauses() },
			"probe":          m.tryTopic,
			"resume":         func(*rapid.T) { m.exec("UPDATE outbox_topics SET resumed = true") },
		})
		m.drain(r)
	})
	taken.check(t)
}

// model is three relays, what the destination has received, and all events.
type model struct {
	fixture
	broker *broker
	newest [2]int // version of each aggregate
	relays [3]relay
	events map[uuid.UUID]bool
	last   map[uuid.UUID]string // the status of each event after the last step
	taken  transitions
}

// relay is the claim of one relay, and its outcomes.
type relay struct {
	Claim
	Settlement // what is to be written
	published  bool
}

var names = [2]string{"a", "b"}

func (m *model) check(r *rapid.T) {
	if bad := m.broker.outOfOrder(); bad != "" {
		r.Fatalf("the events of %s came out of order: %v", bad, m.broker.first[bad])
	}
	if n := m.int(strandedSQL); n != 0 {
		r.Fatalf("%d events are stranded", n)
	}
	if n := m.int("SELECT count(*) FROM outbox_queue q WHERE halted AND NOT EXISTS (SELECT FROM outbox_topics t WHERE t.topic = q.topic)"); n != 0 {
		r.Fatalf("%d events are halted, and their topic is not paused", n)
	}
	m.record()
}

func (m *model) append(r *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(r, "aggregate")
	m.newest[i]++
	m.events[m.fixture.append(names[i], m.newest[i])[0]] = true
}

// supersede appends an event that overtakes the older ones, as Append does with Supersedes.
func (m *model) supersede(*rapid.T) {
	m.newest[0]++
	id := m.fixture.append(names[0], m.newest[0])[0]
	m.events[id] = true
	m.exec("UPDATE outbox_queue SET supersedes = true WHERE id = $1", id)
}

// pick draws a relay for which the condition holds.
func (m *model) pick(r *rapid.T, condition func(relay) bool) *relay {
	var able []int
	for i, relay := range m.relays {
		if condition(relay) {
			able = append(able, i)
		}
	}
	if len(able) == 0 {
		r.Skip("no relay is in that state")
	}
	return &m.relays[rapid.SampledFrom(able).Draw(r, "relay")]
}

func (m *model) claim(r *rapid.T) {
	w := m.pick(r, func(w relay) bool { return len(w.Events) == 0 })
	*w = relay{Claim: m.fixture.claim(rapid.IntRange(1, 5).Draw(r, "batch"))}
	if len(w.NoPayload) > 0 {
		r.Fatalf("events without payload: %v", w.NoPayload)
	}
	m.record()
}

// publish sends a batch. Each event is confirmed, refused or returned, or its outcome is unknown:
// then the destination may have stored it or not. Overtaken events are not sent.
func (m *model) publish(r *rapid.T, w *relay) {
	w.published = true
	for _, e := range w.Events {
		switch {
		case e.Overtaken:
			w.Overtaken = append(w.Overtaken, e.ID)
			continue
		case slices.Contains([]string{"discarded", "overtaken", "gone unsent"}, m.last[e.ID]):
			continue // this relay has lost its lease, and others have gone on without the event
		}
		switch rapid.SampledFrom([]string{"confirmed", "confirmed", "refused", "refused", "returned", "unknown, stored", "unknown, lost"}).Draw(r, "outcome") {
		case "confirmed":
			m.broker.publish(e)
			w.Published = append(w.Published, e.ID)
		case "unknown, stored":
			m.broker.publish(e)
		case "refused":
			final := rapid.Bool().Draw(r, "fails")
			w.Failures = append(w.Failures, Failure{ID: e.ID, Delay: time.Hour, Counts: true, Final: final, Code: "refused"})
		case "returned":
			w.Failures = append(w.Failures, Failure{ID: e.ID, Halt: true, Code: "unroutable"})
			w.Paused = map[string]string{e.Topic: "no queue"}
		}
	}
	if len(w.Published) > 0 && len(w.Paused) == 0 {
		w.Resumed = []string{"order.created"}
	}
}

// settle writes the outcomes. The lease may have ended long before.
func (m *model) settle(_ *rapid.T, w *relay) {
	w.Settlement.Token, w.End = w.Claim.Token, true
	m.fixture.settle(w.Settlement)
	*w = relay{}
}

// pass is a relay that claims, publishes and settles without a pause.
func (m *model) pass(r *rapid.T) {
	w := m.pick(r, func(w relay) bool { return len(w.Events) == 0 })
	*w = relay{Claim: m.fixture.claim(5)}
	m.record()
	if len(w.Events) == 0 {
		r.Skip("nothing is due")
	}
	m.publish(r, w)
	m.settle(r, w)
}

// tryTopic is a relay that tries a paused topic.
func (m *model) tryTopic(r *rapid.T) {
	w := m.pick(r, func(w relay) bool { return len(w.Events) == 0 })
	*w = relay{Claim: m.probe(), Settlement: Settlement{Probe: true}}
	m.record()
	if len(w.Events) == 0 {
		r.Skip("no topic is paused")
	}
	m.publish(r, w)
}

// failed returns the failed events. Without any, the step is skipped, and another one is drawn.
func (m *model) failed(r *rapid.T) (ids []uuid.UUID) {
	for id, status := range m.last {
		if status == "failed" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		r.Skip("no event has failed")
	}
	slices.SortFunc(ids, compareIDs) // rapid wants each run to be the same when it is repeated
	return ids
}

// lateConfirm: the event was stored when an earlier relay sent it. That relay lost its lease, and
// another one has failed the event meanwhile.
func (m *model) lateConfirm(r *rapid.T) {
	stored := slices.DeleteFunc(m.failed(r), func(id uuid.UUID) bool { return !m.broker.seen[id] })
	m.mark(stored...)
}

// turn lets everything become old, and rotates until the ring has turned. It goes back some slots
// first, as if the ring had turned many times: the next slot is one that has events.
func (m *model) turn(r *rapid.T) {
	m.finishLongAgo()
	m.exec("UPDATE outbox_ring SET current = (current + 8 - $1) % 8", rapid.IntRange(1, 2).Draw(r, "slots"))
	before := m.current()
	for m.current() == before {
		m.exec(age)
		must(r, m.store.Rotate(m.Context(), time.Hour))
	}
}

// drain replays all failed events, and lets one relay publish until nothing is left.
func (m *model) drain(r *rapid.T) {
	must(r, m.decide(replaySQL, read[uuid.UUID](m.fixture, "SELECT id FROM outbox_queue WHERE failed_at IS NOT NULL")...))
	m.record()
	m.endLeases()
	m.exec(endBackOffs)
	for {
		m.exec("UPDATE outbox_topics SET resumed = true")
		w := relay{Claim: m.fixture.claim(100)}
		if len(w.Events) == 0 {
			break
		}
		m.record()
		for _, e := range w.Events {
			if e.Overtaken {
				w.Overtaken = append(w.Overtaken, e.ID)
			} else {
				m.broker.publish(e)
				w.Published = append(w.Published, e.ID)
			}
		}
		m.settle(r, &w)
		m.check(r)
	}
	if n := m.unsettled(); n > 0 {
		r.Fatalf("%d events are never published", n)
	}
	for id := range m.events {
		if status := m.last[id]; !m.broker.seen[id] && status != "discarded" && status != "overtaken" && status != "gone unsent" {
			r.Fatalf("event %s is lost: %q", id, status)
		}
	}
}

// transitions counts how often events went from one status to another.
type transitions map[string]int

// allowedTransitions are all that may happen. The value is true if the model, with a hundred runs
// of a few dozen steps, must have taken the transition.
var allowedTransitions = map[string]bool{
	"pending → in_progress":   true,
	"in_progress → published": true,
	"in_progress → pending":   true,
	"in_progress → failed":    true,
	"in_progress → overtaken": true,
	"failed → pending":        true,
	"failed → discarded":      true,
	"published → gone":        true,
	// These are seldom old enough.
	"discarded → gone unsent": false,
	"overtaken → gone unsent": false,
	// The lease has ended, and no other relay has claimed the event: the holder may still fail it.
	"pending → failed":    false,
	"pending → overtaken": false,
	// A confirm is a fact, whatever has happened to the event meanwhile. Random steps seldom
	// take these transitions, and other tests prove them.
	"pending → published":   false,
	"failed → published":    false,
	"discarded → published": false,
	"overtaken → published": false,
}

// check checks that only allowed transitions were taken, and all those that must be.
func (taken transitions) check(t *testing.T) {
	t.Helper()
	t.Logf("transitions: %v", taken)
	for transition := range taken {
		if _, there := allowedTransitions[transition]; !there {
			t.Errorf("no event may go %s", transition)
		}
	}
	for transition, must := range allowedTransitions {
		if must && taken[transition] == 0 {
			t.Errorf("no event went %s", transition)
		}
	}
}

// record compares all events with their last status.
func (m *model) record() {
	m.Helper()
	now := map[uuid.UUID]string{}
	found, err := m.pool.Query(m.Context(), "SELECT id, status FROM outbox_status WHERE payload IS NOT NULL")
	must(m, err)
	for found.Next() {
		var id uuid.UUID
		var status string
		must(m, found.Scan(&id, &status))
		now[id] = status
	}
	must(m, found.Err())
	for id, was := range m.last {
		if _, there := now[id]; !there {
			now[id] = "gone"
			if was == "discarded" || was == "overtaken" || was == "gone unsent" {
				now[id] = "gone unsent"
			}
		}
		if is := now[id]; was != is {
			m.taken[was+" → "+is]++
		}
	}
	m.last = now
}
