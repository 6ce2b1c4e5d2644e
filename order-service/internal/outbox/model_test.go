package outbox_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// TestP7ModelOfManyRelays takes random steps with three relays: they claim, publish with any
// outcome, settle late or never, and lose their leases; operators replay and discard; the janitor
// prunes. After each step the broker must have received the versions of every order in order. At
// the end, all events must be published or discarded, and none may be lost. All runs together must
// take each transition between the states.
func TestP7ModelOfManyRelays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	taken := transitions{}
	rapid.Check(t, func(r *rapid.T) {
		f.exec("TRUNCATE outbox_events, outbox_queue, outbox_claims, outbox_published, outbox_discarded")
		m := newModel(f)
		m.taken = taken
		r.Repeat(map[string]func(*rapid.T){
			"":                 func(r *rapid.T) { m.check(r) },
			"append":           m.append,
			"claim":            m.claim,
			"publish":          m.publish,
			"settle":           m.settle,
			"crash":            m.crash,
			"whole pass":       m.pass,
			"another pass":     m.pass,
			"leases end":       func(*rapid.T) { f.endLeases() },
			"back-offs end":    func(*rapid.T) { f.exec(endBackOffs) },
			"replay":           m.replay,
			"discard":          m.discard,
			"late confirm":     m.lateConfirm,
			"prune":            m.prune,
			"retry unroutable": m.retrySomeUnroutable,
		})
		m.drain(r)
	})
	taken.check(t)
}

// model is three relays, a broker, and the events that operators discarded.
type model struct {
	fixture
	broker     broker
	aggregates []uuid.UUID
	newest     map[uuid.UUID]int
	relays     [3]relay
	discarded  map[version]bool
	statusHistory
}

// relay is the claim of one relay, and its outcomes.
type relay struct {
	claim     outbox.Claim
	confirmed []uuid.UUID
	refused   []uuid.UUID
	returned  []outbox.Failure
	published bool
}

func newModel(f fixture) *model {
	m := &model{
		fixture: f, newest: map[uuid.UUID]int{}, discarded: map[version]bool{},
		broker: broker{versions: map[uuid.UUID]version{}, first: map[uuid.UUID][]int{}},
	}
	for range 2 {
		m.aggregates = append(m.aggregates, uuid.New())
	}
	return m
}

func (m *model) check(r *rapid.T) {
	if err := m.broker.checkOrder(m.discarded); err != nil {
		r.Fatal(err)
	}
	var n int
	if m.read(&n, strandedSQL); n != 0 {
		r.Fatalf("%d events are stranded", n)
	}
	m.record(m.fixture)
}

func (m *model) append(r *rapid.T) {
	aggregate := rapid.SampledFrom(m.aggregates).Draw(r, "aggregate")
	m.newest[aggregate]++
	number := m.newest[aggregate]
	id := m.fixture.append(aggregate, number)[0]
	m.broker.versions[id] = version{aggregate, number}
}

// pickRelay draws a relay for which the condition holds.
func (m *model) pickRelay(r *rapid.T, condition func(relay) bool) *relay {
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
	w := m.pickRelay(r, func(w relay) bool { return len(w.claim.Events) == 0 })
	defer m.record(m.fixture)
	*w = relay{claim: m.fixture.claim(rapid.IntRange(1, 5).Draw(r, "batch"))}
}

// publish sends a batch. Each event is confirmed, refused or returned, or its outcome is unknown:
// then the broker may have stored it or not.
func (m *model) publish(r *rapid.T) {
	m.publishBatch(r, m.pickRelay(r, func(w relay) bool { return len(w.claim.Events) > 0 && !w.published }))
}

func (m *model) publishBatch(r *rapid.T, w *relay) {
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
			w.returned = append(w.returned, outbox.Failure{ID: e.ID, Delay: time.Hour, Code: "unroutable"})
		}
	}
}

// settle writes the outcomes. The lease may have ended long before.
func (m *model) settle(r *rapid.T) {
	m.settleBatch(r, m.pickRelay(r, func(w relay) bool { return w.published }))
}

func (m *model) settleBatch(r *rapid.T, w *relay) {
	must(r, m.store.MarkPublished(m.Context(), uuid.Nil, w.confirmed))
	m.record(m.fixture)
	for _, id := range w.refused {
		failure := outbox.Failure{ID: id, Delay: time.Hour, Counts: true, Code: "refused"}
		if rapid.Bool().Draw(r, "fails") {
			_, _, err := m.store.Fail(m.Context(), w.claim.Token, failure)
			must(r, err)
		} else {
			_, err := m.store.Reschedule(m.Context(), w.claim.Token, []outbox.Failure{failure})
			must(r, err)
		}
	}
	_, err := m.store.Reschedule(m.Context(), w.claim.Token, w.returned)
	must(r, err)
	_, err = m.store.Release(m.Context(), w.claim.Token)
	must(r, err)
	*w = relay{}
}

// pass is a relay that claims, publishes and settles without a pause.
func (m *model) pass(r *rapid.T) {
	w := m.pickRelay(r, func(w relay) bool { return len(w.claim.Events) == 0 })
	*w = relay{claim: m.fixture.claim(5)}
	m.record(m.fixture)
	if len(w.claim.Events) == 0 {
		r.Skip("nothing is due")
	}
	m.publishBatch(r, w)
	m.settleBatch(r, w)
}

func (m *model) crash(r *rapid.T) {
	*m.pickRelay(r, func(w relay) bool { return len(w.claim.Events) > 0 }) = relay{}
}

func (m *model) failed() (ids []uuid.UUID) {
	m.read(&ids, "SELECT id FROM outbox_status WHERE status = 'failed'")
	return ids
}

func (m *model) replay(r *rapid.T) { must(r, m.fixture.replay(m.failed()...)) }

func (m *model) discard(r *rapid.T) {
	ids := m.failed()
	for _, id := range ids {
		m.discarded[m.broker.versions[id]] = true
	}
	must(r, m.fixture.discard(ids...))
}

// lateConfirm: the event was stored when an earlier relay sent it. That relay lost its lease, and
// another one has failed the event meanwhile.
func (m *model) lateConfirm(r *rapid.T) {
	stored := slices.DeleteFunc(m.failed(), func(id uuid.UUID) bool { return !m.broker.stored(id) })
	must(r, m.store.MarkPublished(m.Context(), uuid.Nil, stored))
}

// retrySomeUnroutable: a relay received the confirm of an event of the key.
func (m *model) retrySomeUnroutable(r *rapid.T) {
	m.retryUnroutable(rapid.IntRange(1, 3).Draw(r, "limit"))
}

// prune makes all times older by more than the retention, and prunes.
func (m *model) prune(r *rapid.T) {
	for table, column := range map[string]string{
		"outbox_events": "created_at", "outbox_published": "published_at", "outbox_discarded": "discarded_at",
	} {
		m.exec("UPDATE " + table + " SET " + column + " = " + column + " - interval '8 days'")
	}
	_, _, err := m.store.Prune(m.Context(), 7*24*time.Hour, uuid.Nil, 1000)
	must(r, err)
}

// drain settles all failed events, and lets one relay publish until nothing is left.
func (m *model) drain(r *rapid.T) {
	decide := rapid.SampledFrom([]func(*rapid.T){m.replay, m.discard}).Draw(r, "decision")
	decide(r)
	m.endLeases()
	m.exec(endBackOffs)
	for c := m.claimWithUnroutable(); len(c.Events) > 0; c = m.claimWithUnroutable() {
		for _, e := range c.Events {
			m.broker.publish(e.ID)
		}
		must(r, m.store.MarkPublished(m.Context(), uuid.Nil, idsOf(c)))
		m.check(r)
	}
	if n := m.unsettled(); n > 0 {
		r.Fatalf("%d events are never published", n)
	}
	for id, v := range m.broker.versions {
		if !m.broker.stored(id) && !m.discarded[v] {
			r.Fatalf("version %d of an order is lost", v.number)
		}
	}
}

// claimWithUnroutable makes unroutable events due, as the janitor and a relay do, and claims.
func (m *model) claimWithUnroutable() outbox.Claim {
	m.retryUnroutable(100)
	return m.fixture.claim(100)
}
