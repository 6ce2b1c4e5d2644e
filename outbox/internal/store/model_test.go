package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

// TestP7ModelOfManyRelays takes random steps with two relays: they claim, publish with any outcome,
// settle late, twice or never, and lose their leases; topics pause; operators lock, replay and
// discard events; newer events supersede older ones; old events are deleted. Each claim must take
// what the rule of next.go says. After each step the destination must have received the versions of
// every aggregate in order. At the end, all events must be published, discarded or superseded, and
// none may be lost. All runs together must take each transition between the states.
func TestP7ModelOfManyRelays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	taken := transitions{}
	rapid.Check(t, func(r *rapid.T) {
		f.exec(`DELETE FROM outbox_events; DELETE FROM outbox_queue; DELETE FROM outbox_claims; DELETE FROM outbox_topics;
			DELETE FROM outbox_done`)
		m := &model{fixture: f, broker: newBroker(), stores: [2]*Store{New(f.pool), New(f.pool)}, events: map[uuid.UUID]Event{}, taken: taken}
		r.Repeat(map[string]func(*rapid.T){
			"":          m.check,
			"append":    m.append,
			"supersede": m.append,
			"claim":     m.claim,
			"an operator has locked an event": func(r *rapid.T) {
				ids := read[uuid.UUID](m.fixture, "SELECT id FROM outbox_queue ORDER BY seq")
				if len(ids) == 0 {
					r.Skip("the queue is empty")
				}
				m.locked = rapid.SampledFrom(ids).Draw(r, "locked")
				defer func() { m.locked = uuid.Nil }()
				m.withRowLocked(m.locked, func() { m.claim(r) })
			},
			"publish": func(r *rapid.T) {
				m.publish(r, m.pick(r, func(w relay) bool { return len(w.Events) > 0 && !w.published }))
			},
			"settle":        func(r *rapid.T) { m.settle(r, m.pick(r, func(w relay) bool { return w.published })) },
			"crash":         func(r *rapid.T) { *m.pick(r, func(w relay) bool { return len(w.Events) > 0 }) = relay{} },
			"whole pass":    m.pass,
			"another pass":  m.pass,
			"leases end":    func(*rapid.T) { m.endLeases() },
			"back-offs end": func(*rapid.T) { m.exec(endBackOffs) },
			"replay":        func(r *rapid.T) { must(r, m.decide(replaySQL, m.failed(r)...)) },
			"discard":       func(r *rapid.T) { must(r, m.decide(discardSQL, m.failed(r)...)) },
			"late confirm":  m.lateConfirm,
			"years pass":    func(*rapid.T) { m.finishLongAgo(); m.deleteFrom(place{}) },
			"pauses end":    func(*rapid.T) { m.endPauses() },
			"trial":         m.tryTopic,
			"resume":        func(*rapid.T) { m.exec("UPDATE outbox_topics SET resumed = true") },
		})
		m.drain(r)
	})
	taken.check(t)
}

// model is two relays, what the destination has received, and all events.
type model struct {
	fixture
	broker      *broker
	stores      [2]*Store // each remembers other things
	newest      [2]int    // version of each aggregate
	superseding [2]int    // the newest version that supersedes the older ones
	relays      [2]relay
	locked      uuid.UUID // by an operator
	events      map[uuid.UUID]Event
	last        map[uuid.UUID]string // the status of each event after the last step
	taken       transitions
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
	if n := m.int(haltedForEverSQL); n != 0 {
		r.Fatalf("%d events are halted, and their topic is not paused", n)
	}
	if n := m.int(`SELECT count(*) FROM (
		SELECT FROM outbox_claims c, unnest(events) flying JOIN outbox_queue q ON q.id = flying
		WHERE until > now() GROUP BY aggregate_id HAVING count(*) > 1) two`); n != 0 {
		r.Fatalf("%d aggregates have several events in flight", n)
	}
	m.record()
}

// append commits an event of one of two topics, due at once or later. It may supersede older ones.
func (m *model) append(r *rapid.T) {
	i, topic := rapid.IntRange(0, 1).Draw(r, "aggregate"), rapid.SampledFrom([]string{"order.created", "other"}).Draw(r, "topic")
	m.newest[i]++
	e := Event{ID: uuid.New(), Topic: topic, Aggregate: "order", AggregateID: names[i], Version: m.newest[i]}
	m.events[e.ID] = e
	delay := rapid.SampledFrom([]int{0, 0, 3600}).Draw(r, "delay")
	m.exec(insertSQL("SELECT $1::uuid, $2::int, 'order', $3::text, $4::text, '{}'::bytea", fmt.Sprintf("now() + interval '%d s'", delay)),
		e.ID, e.Version, e.AggregateID, e.Topic)
	if rapid.Bool().Draw(r, "supersedes") {
		m.exec("UPDATE outbox_queue SET supersedes = true WHERE id = $1", e.ID)
		m.superseding[i] = e.Version
	}
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

// free returns what a claim must take now, by the rule of next.go. It is unknown while events of
// resumed topics come back.
func (m *model) free() (ids []uuid.UUID, known bool) {
	m.Helper()
	type row struct {
		ID                                             uuid.UUID
		Aggregate                                      string
		Supersedes, Due, Halted, Paused, Flies, Resume bool
	}
	found, err := m.pool.Query(m.Context(), `SELECT id, aggregate_id, supersedes, available_at <= now(), halted,
		EXISTS (SELECT FROM outbox_topics t WHERE t.topic = q.topic AND NOT resumed),
		EXISTS (SELECT FROM outbox_claims WHERE until > now() AND q.id = ANY (events)),
		halted AND EXISTS (SELECT FROM outbox_topics t WHERE t.topic = q.topic AND resumed)
		FROM outbox_queue q ORDER BY version`)
	must(m, err)
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	must(m, err)
	known = true
	for _, name := range names {
		var next row
		isFree := true
		for _, q := range rows {
			if q.Aggregate != name {
				continue
			}
			known = known && !q.Resume
			isFree = isFree && !q.Flies
			if next.ID == uuid.Nil || q.Supersedes && (q.Due || q.Halted) {
				next = q
			}
		}
		for _, q := range rows { // an older one that somebody has locked
			if q.ID == m.locked && q.Aggregate == name && m.events[q.ID].Version < m.events[next.ID].Version {
				isFree = false
			}
		}
		if isFree && next.Due && !next.Paused {
			ids = append(ids, next.ID)
		}
	}
	return ids, known
}

// claimFree claims all that is free.
func (m *model) claimFree(r *rapid.T) Claim {
	want, known := m.free()
	relay := rapid.SampledFrom(m.stores[:]).Draw(r, "store")
	relay.floor.set(found{}, time.Now(), time.Time{})
	c, err := relay.Claim(m.Context(), "test", 100, lease)
	must(r, err)
	got := idsOf(c)
	slices.SortFunc(want, compareIDs)
	slices.SortFunc(got, compareIDs)
	if len(c.NoPayload) > 0 || known && !slices.Equal(got, want) {
		r.Fatalf("claimed %v, want %v; without payload %v", got, want, c.NoPayload)
	}
	m.record()
	return c
}

func (m *model) claim(r *rapid.T) {
	*m.pick(r, func(w relay) bool { return len(w.Events) == 0 }) = relay{Claim: m.claimFree(r)}
}

// publish sends a batch, if the lease is held. Each event is confirmed, refused or returned, or its
// outcome is unknown: then the destination may have stored it or not, and it may count as refused.
func (m *model) publish(r *rapid.T, w *relay) {
	w.published, w.Paused = true, map[string]string{}
	if m.int("SELECT count(*) FROM outbox_claims WHERE token = $1 AND until > now()", w.Claim.Token) == 0 {
		return
	}
	for _, e := range w.Events {
		outcome := rapid.SampledFrom([]string{"confirmed", "confirmed", "refused", "failed", "failed", "returned", "stored, refused", "unknown, stored", "unknown, lost"}).Draw(r, "outcome")
		switch outcome {
		case "confirmed":
			m.broker.publish(e)
			w.Published = append(w.Published, e)
			w.Resumed = append(w.Resumed, e.Topic)
		case "unknown, stored":
			m.broker.publish(e)
		case "stored, refused": // the answer was lost
			m.broker.publish(e)
			w.Failures = append(w.Failures, Failure{ID: e.ID, Delay: time.Hour, Code: "no_answer"})
		case "refused", "failed":
			w.Failures = append(w.Failures, Failure{ID: e.ID, Delay: time.Hour, Counts: true, Final: outcome == "failed", Code: "refused"})
		case "returned":
			w.Failures = append(w.Failures, Failure{ID: e.ID, Halt: true, Code: "unroutable"})
			w.Paused[e.Topic] = "no queue"
		}
	}
	w.Resumed = slices.DeleteFunc(w.Resumed, func(topic string) bool { return w.Paused[topic] != "" })
}

// settle writes the outcomes, and once more if the answer is lost. The lease may have ended long
// before.
func (m *model) settle(r *rapid.T, w *relay) {
	w.Settlement.Token, w.End = w.Claim.Token, true
	for range rapid.IntRange(1, 2).Draw(r, "times") {
		m.fixture.settle(w.Settlement)
	}
	*w = relay{}
}

// pass is a relay that claims, publishes and settles without a pause.
func (m *model) pass(r *rapid.T) {
	w := m.pick(r, func(w relay) bool { return len(w.Events) == 0 })
	*w = relay{Claim: m.claimFree(r)}
	if len(w.Events) == 0 {
		r.Skip("nothing is due")
	}
	m.publish(r, w)
	m.settle(r, w)
}

// tryTopic is a relay that tries a paused topic.
func (m *model) tryTopic(r *rapid.T) {
	w := m.pick(r, func(w relay) bool { return len(w.Events) == 0 })
	*w = relay{Claim: m.trial(), Settlement: Settlement{Trial: true}}
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

// lateConfirm: the event was stored when an earlier relay sent it. Meanwhile it may have failed, or
// a newer one has superseded it.
func (m *model) lateConfirm(r *rapid.T) {
	var late []Event
	for id, e := range m.events {
		if m.broker.seen[id] && slices.Contains([]string{"pending", "failed", "superseded"}, m.last[id]) {
			late = append(late, e)
		}
	}
	if len(late) == 0 {
		r.Skip("no event was stored and is not marked")
	}
	m.fixture.settle(Settlement{Published: late})
}

// drain replays all failed events, and lets one relay publish until nothing is left.
func (m *model) drain(r *rapid.T) {
	must(r, m.decide(replaySQL, read[uuid.UUID](m.fixture, "SELECT id FROM outbox_queue WHERE failed_at IS NOT NULL")...))
	m.endLeases()
	m.exec(endBackOffs)
	m.record()
	for m.unsettled() > 0 {
		m.exec("UPDATE outbox_topics SET resumed = true")
		c := m.claimFree(r)
		if len(c.Events) == 0 && !c.More {
			r.Fatalf("%d events are never published", m.unsettled())
		}
		for _, e := range c.Events {
			m.broker.publish(e)
		}
		m.fixture.settle(Settlement{Token: c.Token, End: true, Published: c.Events})
		m.check(r)
	}
	for id, e := range m.events {
		status := m.last[id]
		isSuperseded := status == "superseded" && e.Version < m.superseding[slices.Index(names[:], e.AggregateID)]
		if !m.broker.seen[id] && !isSuperseded && status != "discarded" && status != "gone unsent" {
			r.Fatalf("event %s is lost: %q", id, status)
		}
	}
}
