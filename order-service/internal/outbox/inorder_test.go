package outbox_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// version is one event, as people count: the third event of an order is version 3.
type version struct {
	aggregate uuid.UUID
	number    int
}

// broker is where simulated relays publish: it remembers the order in which the
// events of each aggregate appeared for the first time.
type broker struct {
	mu       sync.Mutex
	versions map[uuid.UUID]version // by message id; written before the relays start
	first    map[uuid.UUID][]int   // by aggregate
}

func (k *broker) publish(id uuid.UUID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v := k.versions[id]
	if !slices.Contains(k.first[v.aggregate], v.number) {
		k.first[v.aggregate] = append(k.first[v.aggregate], v.number)
	}
}

func (k *broker) has(id uuid.UUID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	v := k.versions[id]
	return slices.Contains(k.first[v.aggregate], v.number)
}

// outOfOrder returns what is wrong with the first appearances: they must be 1, 2, 3…
// but for those that an operator discarded, of which nobody waits for the outcome.
func (k *broker) outOfOrder(discarded map[version]bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for aggregate, appeared := range k.first {
		next := 1
		for _, number := range appeared {
			if discarded[version{aggregate, number}] {
				continue
			}
			for discarded[version{aggregate, next}] {
				next++
			}
			if number != next {
				return fmt.Errorf("the versions of one order appeared as %v, discarded %v", appeared, discarded)
			}
			next++
		}
	}
	return nil
}

// TestP7ModelOfManyRelays lets three relays do whatever relays do, one step at a
// time: claim, publish with any outcome, settle late or never, and lose their leases
// meanwhile; operators replay and discard, and what is finished is pruned. After each
// step the broker has seen the versions of every order in order, and at the end nothing
// is left or has vanished. All of it together takes every step between the states.
func TestP7ModelOfManyRelays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.noteSteps()
	rapid.Check(t, func(r *rapid.T) {
		b.exec("TRUNCATE outbox_events")
		m := newModel(b)
		r.Repeat(map[string]func(*rapid.T){
			"":              func(r *rapid.T) { m.check(r) },
			"append":        m.append,
			"claim":         m.claim,
			"publish":       m.publish,
			"settle":        m.settle,
			"crash":         m.crash,
			"whole pass":    m.pass,
			"another pass":  m.pass,
			"leases end":    func(*rapid.T) { b.endLeases() },
			"back-offs end": func(*rapid.T) { b.exec(endBackOffs) },
			"replay":        m.replay,
			"discard":       m.discard,
			"late confirm":  m.lateConfirm,
			"prune":         m.prune,
			"bring back":    m.bringBackSome,
		})
		m.drain(r)
	})
	b.wantSteps(t)
}

// endBackOffs makes due what time makes due: nothing that is parked.
const endBackOffs = "UPDATE outbox_events SET available_at = now() WHERE status = 'pending' AND available_at < 'infinity'"

// model is three relays, a broker, and what operators discarded.
type model struct {
	bench
	broker     broker
	aggregates []uuid.UUID
	newest     map[uuid.UUID]int
	relays     [3]relay
	discarded  map[version]bool
}

// relay is what one relay has in hand.
type relay struct {
	claim     outbox.Claim
	confirmed []uuid.UUID
	refused   []uuid.UUID
	returned  []outbox.Setback
	published bool
}

func newModel(b bench) *model {
	m := &model{
		bench: b, newest: map[uuid.UUID]int{}, discarded: map[version]bool{},
		broker: broker{versions: map[uuid.UUID]version{}, first: map[uuid.UUID][]int{}},
	}
	for range 2 {
		m.aggregates = append(m.aggregates, uuid.New())
	}
	return m
}

func (m *model) check(r *rapid.T) {
	if err := m.broker.outOfOrder(m.discarded); err != nil {
		r.Fatal(err)
	}
	for _, wrong := range []string{astray, inTheWay} {
		var n int
		if m.read(&n, wrong); n != 0 {
			r.Fatalf("%d rows of %s", n, wrong)
		}
	}
}

func (m *model) append(r *rapid.T) {
	aggregate := rapid.SampledFrom(m.aggregates).Draw(r, "aggregate")
	m.newest[aggregate]++
	number := m.newest[aggregate]
	id := m.bench.append(aggregate, number)[0]
	m.broker.versions[id] = version{aggregate, number}
}

// one draws a relay for which the condition holds.
func (m *model) one(r *rapid.T, condition func(relay) bool) *relay {
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
	w := m.one(r, func(w relay) bool { return len(w.claim.Events) == 0 })
	*w = relay{claim: m.bench.claim(rapid.IntRange(1, 5).Draw(r, "batch"))}
}

// publish sends a batch: each event is confirmed, refused, or of unknown outcome, in
// which case the broker may have it or not.
func (m *model) publish(r *rapid.T) {
	m.send(r, m.one(r, func(w relay) bool { return len(w.claim.Events) > 0 && !w.published }))
}

func (m *model) send(r *rapid.T, w *relay) {
	w.published = true
	for _, e := range w.claim.Events {
		switch rapid.SampledFrom([]string{"confirmed", "confirmed", "refused", "refused", "returned", "unknown, stored", "unknown, lost"}).Draw(r, "outcome") {
		case "confirmed":
			m.broker.publish(e.ID)
			w.confirmed = append(w.confirmed, e.ID)
		case "unknown, stored":
			m.broker.publish(e.ID)
		case "refused":
			w.refused = append(w.refused, e.ID)
		case "returned":
			w.returned = append(w.returned, outbox.Setback{ID: e.ID, Delay: time.Hour, Code: "unroutable"})
		}
	}
}

// settle writes the outcomes, under a lease that may have ended long ago.
func (m *model) settle(r *rapid.T) {
	m.write(r, m.one(r, func(w relay) bool { return w.published }))
}

func (m *model) write(r *rapid.T, w *relay) {
	must(r, m.store.MarkPublished(m.Context(), w.confirmed))
	for _, id := range w.refused {
		setback := outbox.Setback{ID: id, Delay: time.Hour, Spends: true, Code: "refused"}
		if rapid.Bool().Draw(r, "gives up") {
			_, _, err := m.store.Fail(m.Context(), w.claim.Token, setback)
			must(r, err)
		} else {
			_, err := m.store.Reschedule(m.Context(), w.claim.Token, []outbox.Setback{setback})
			must(r, err)
		}
	}
	_, err := m.store.Reschedule(m.Context(), w.claim.Token, w.returned)
	must(r, err)
	_, err = m.store.Release(m.Context(), w.claim.Token, idsOf(w.claim))
	must(r, err)
	*w = relay{}
}

// pass is a relay with nothing to hold it up.
func (m *model) pass(r *rapid.T) {
	w := m.one(r, func(w relay) bool { return len(w.claim.Events) == 0 })
	*w = relay{claim: m.bench.claim(5)}
	if len(w.claim.Events) == 0 {
		r.Skip("nothing is due")
	}
	m.send(r, w)
	m.write(r, w)
}

func (m *model) crash(r *rapid.T) {
	*m.one(r, func(w relay) bool { return len(w.claim.Events) > 0 }) = relay{}
}

func (m *model) failed() (ids []uuid.UUID) {
	m.read(&ids, "SELECT id FROM outbox_events WHERE status = 'failed'")
	return ids
}

func (m *model) replay(r *rapid.T) { must(r, m.bench.replay(m.failed()...)) }

func (m *model) discard(r *rapid.T) {
	ids := m.failed()
	for _, id := range ids {
		m.discarded[m.broker.versions[id]] = true
	}
	must(r, m.bench.discard(ids...))
}

// lateConfirm is that of a relay which lost its lease before another one gave up.
func (m *model) lateConfirm(r *rapid.T) {
	stored := slices.DeleteFunc(m.failed(), func(id uuid.UUID) bool { return !m.broker.has(id) })
	must(r, m.store.MarkPublished(m.Context(), stored))
}

// bringBackSome is a relay's, to which an event of the key was confirmed.
func (m *model) bringBackSome(r *rapid.T) {
	m.bringBack(rapid.IntRange(1, 3).Draw(r, "limit"))
}

// prune lets a week go by in which nobody did anything.
func (m *model) prune(r *rapid.T) {
	m.exec(`UPDATE outbox_events SET created_at = created_at - interval '8 days',
		published_at = published_at - interval '8 days', failed_at = failed_at - interval '8 days'`)
	_, _, err := m.store.Prune(m.Context(), 7*24*time.Hour, uuid.Nil, 1000)
	must(r, err)
}

// drain decides about everything that failed and lets one good relay work: it must
// leave nothing behind.
func (m *model) drain(r *rapid.T) {
	decide := rapid.SampledFrom([]func(*rapid.T){m.replay, m.discard}).Draw(r, "decision")
	decide(r)
	m.endLeases()
	m.exec(endBackOffs)
	for c := m.claimAfterProbes(); len(c.Events) > 0; c = m.claimAfterProbes() {
		for _, e := range c.Events {
			m.broker.publish(e.ID)
		}
		must(r, m.store.MarkPublished(m.Context(), idsOf(c)))
		m.check(r)
	}
	if n := m.unsettled(); n > 0 {
		r.Fatalf("%d events are never published", n)
	}
	for id, v := range m.broker.versions {
		if !m.broker.has(id) && !m.discarded[v] {
			r.Fatalf("version %d of an order has vanished", v.number)
		}
	}
}

// claimAfterProbes lets the janitor and the relay bring back what waits for a route.
func (m *model) claimAfterProbes() outbox.Claim {
	m.bringBack(100)
	return m.bench.claim(100)
}

func must(t interface{ Fatal(args ...any) }, err error) {
	if err != nil {
		t.Fatal(err)
	}
}
