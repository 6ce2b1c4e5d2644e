package model_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/order-service/simulator/model"
	"example.com/transactional-outbox/test/servers"
)

// checks is how many sequences of steps are taken. rapid's default of 100 costs a minute; the flag
// -rapid.checks still sets another number.
const checks = "25"

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	os.Exit(m.Run()) // it parses the flags of the command line, which win
}

// TestTheModelDoesWhatPostgreSQLDoes takes the same random steps with the model and with the real
// outbox, and compares all answers, and after each step all tables.
func TestTheModelDoesWhatPostgreSQLDoes(t *testing.T) {
	t.Parallel()
	db, _ := servers.Migrated(t, postgres.Migrations{Files: migrations.Files})
	rapid.Check(t, func(r *rapid.T) {
		p := &pair{t: t, r: r, db: db, store: outbox.NewStore(db), model: model.New(time.Now()), tokens: map[uuid.UUID]uuid.UUID{}}
		p.exec("TRUNCATE outbox_events, outbox_queue, outbox_claims, outbox_published, outbox_discarded")
		for range 2 {
			p.orders = append(p.orders, uuid.New())
		}
		r.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {
				p.compare()
				p.model.Advance(time.Microsecond) // so that its times have the order of PostgreSQL's
			},
			"append":             p.append,
			"claim":              p.claim,
			"claim again":        p.claim,
			"mark published":     p.markPublished,
			"reschedule":         p.reschedule,
			"fail":               p.fail,
			"release":            p.release,
			"retry unroutable":   p.retryUnroutable,
			"probe routes":       p.probeRoutes,
			"replay":             p.replay,
			"the clock advances": p.advance,
		})
	})
}

// pair is the model and the real outbox, in the same state.
type pair struct {
	t      *testing.T
	r      *rapid.T
	db     *postgres.DB
	store  *outbox.Store
	model  *model.Outbox
	orders []uuid.UUID
	events []uuid.UUID
	counts [2]int                  // versions of each order
	tokens map[uuid.UUID]uuid.UUID // the model's token of each real one
	claims []outbox.Claim          // all that ever were, with the real tokens
}

// All events of an order have one key, so that some keys have several orders, and some orders are
// alone with theirs.
var keys = []string{"order.created", "order.confirmed"}

const lease = time.Minute

func (p *pair) append(r *rapid.T) {
	n := rapid.IntRange(0, len(p.orders)-1).Draw(r, "order")
	key := rapid.SampledFrom(keys).Draw(r, "key")
	p.counts[n]++
	id := uuid.New()
	p.events = append(p.events, id)
	p.model.Append(id, p.orders[n], p.counts[n], key)
	p.must(p.db.InTx(p.t.Context(), func(tx *postgres.Tx) error {
		return outbox.Append(p.t.Context(), tx, outbox.Message{
			ID: id, AggregateType: "order", AggregateID: p.orders[n], AggregateVersion: p.counts[n], EventKey: key, Payload: []byte("{}"),
		})
	}))
}

func (p *pair) claim(r *rapid.T) {
	limit := rapid.SampledFrom([]int{1, 3, 100}).Draw(r, "limit")
	claim, err := p.store.Claim(p.t.Context(), "worker", limit, lease)
	p.must(err)
	modelled := p.model.Claim(uuid.New(), "worker", limit, lease)
	got, want := describe(claim), describe(modelled)
	if got != want {
		p.r.Fatalf("the model claims %s, PostgreSQL %s", want, got)
	}
	if len(claim.Events) > 0 {
		p.tokens[claim.Token] = modelled.Token
		p.claims = append(p.claims, claim)
	}
}

func describe(c outbox.Claim) (text string) {
	for _, e := range c.Events {
		text += fmt.Sprintf("%s %s %d %t; ", e.ID, e.EventKey, e.RetryCount, e.Unroutable)
	}
	return text
}

// pick returns a claim, and at least one of its events. The claim may have ended.
func (p *pair) pick(r *rapid.T) (c outbox.Claim, some []outbox.Claimed) {
	if len(p.claims) == 0 {
		r.Skip("nothing was claimed")
	}
	c = rapid.SampledFrom(p.claims).Draw(r, "claim")
	from := rapid.IntRange(0, len(c.Events)-1).Draw(r, "from")
	return c, c.Events[from:]
}

func (p *pair) markPublished(r *rapid.T) {
	c, some := p.pick(r)
	var ids []uuid.UUID
	for _, e := range some {
		ids = append(ids, e.ID)
	}
	real, modelled := uuid.Nil, uuid.Nil
	if rapid.Bool().Draw(r, "ends the claim") {
		real, modelled = c.Token, p.tokens[c.Token]
	}
	p.must(p.store.MarkPublished(p.t.Context(), real, ids))
	p.model.MarkPublished(modelled, ids)
}

func (p *pair) reschedule(r *rapid.T) {
	c, some := p.pick(r)
	var failures []outbox.Failure
	for _, e := range some {
		failures = append(failures, outbox.Failure{
			ID: e.ID, Delay: rapid.SampledFrom([]time.Duration{0, time.Minute, 5 * time.Minute}).Draw(r, "delay"),
			Code: rapid.SampledFrom([]string{"unroutable", "refused"}).Draw(r, "code"), Counts: rapid.Bool().Draw(r, "counts"),
		})
	}
	n, err := p.store.Reschedule(p.t.Context(), c.Token, failures)
	p.must(err)
	p.same("rescheduled", p.model.Reschedule(p.tokens[c.Token], failures), n)
}

func (p *pair) fail(r *rapid.T) {
	c, some := p.pick(r)
	failure := outbox.Failure{ID: some[0].ID, Code: "refused", Counts: rapid.Bool().Draw(r, "counts")}
	_, n, err := p.store.Fail(p.t.Context(), c.Token, failure)
	p.must(err)
	_, modelled := p.model.Fail(p.tokens[c.Token], failure)
	p.same("failed", modelled, n)
}

func (p *pair) release(r *rapid.T) {
	c, _ := p.pick(r)
	held, err := p.store.Release(p.t.Context(), c.Token)
	p.must(err)
	p.same("released", p.model.Release(p.tokens[c.Token]), held)
}

func (p *pair) retryUnroutable(r *rapid.T) {
	key := rapid.SampledFrom(keys).Draw(r, "key")
	n, err := p.store.RetryUnroutable(p.t.Context(), key, 100)
	p.must(err)
	p.same("made due", p.model.RetryUnroutable(key, 100), n)
}

func (p *pair) probeRoutes(*rapid.T) {
	n, err := p.store.ProbeRoutes(p.t.Context())
	p.must(err)
	p.same("probes", p.model.ProbeRoutes(), n)
}

func (p *pair) replay(r *rapid.T) {
	if len(p.events) == 0 {
		r.Skip("there are no events")
	}
	id := rapid.SampledFrom(p.events).Draw(r, "event")
	replayed, err := outbox.NewOperator(p.db).Replay(p.t.Context(), audit.New("ann", audit.CLI, audit.ByIDs), []uuid.UUID{id})
	p.must(err)
	p.same("replayed", p.model.Replay(id), len(replayed) == 1)
}

// advance moves all times of PostgreSQL into the past, instead of its clock.
func (p *pair) advance(r *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{30 * time.Second, time.Minute, 5 * time.Minute}).Draw(r, "time")
	p.exec("UPDATE outbox_queue SET available_at = available_at - ? * interval '1 second' WHERE available_at < 'infinity'", d.Seconds())
	p.exec("UPDATE outbox_claims SET until = until - ? * interval '1 second'", d.Seconds())
	p.model.Advance(d)
}

// row is what both know about an event that waits.
type row struct {
	ID       uuid.UUID
	Attempts int
	Code     string
	State    string
	Claimed  bool
}

// compare compares the queue, the claims and the published events.
func (p *pair) compare() {
	var rows []row
	p.read(&rows, `SELECT q.id, retry_count AS attempts, coalesce(failure_code, '') AS code,
		CASE WHEN failed_at IS NOT NULL THEN 'failed' WHEN available_at = 'infinity' THEN 'parked'
		     WHEN available_at <= now() THEN 'due' ELSE 'later' END AS state,
		EXISTS (SELECT FROM outbox_claims WHERE q.id = ANY (events)) AS claimed
		FROM outbox_queue q ORDER BY seq`)
	claimed := map[uuid.UUID]bool{}
	for _, c := range p.model.Claims() {
		for _, id := range c.Events {
			claimed[id] = true
		}
	}
	var modelled []row
	for _, q := range p.model.Queue() {
		modelled = append(modelled, row{ID: q.ID, Attempts: q.Attempts, Code: q.Code, State: p.state(q), Claimed: claimed[q.ID]})
	}
	if !slices.Equal(rows, modelled) {
		p.r.Fatalf("the model has\n%+v\nPostgreSQL has\n%+v", modelled, rows)
	}
	var published []uuid.UUID
	p.read(&published, "SELECT id FROM outbox_published")
	p.same("published events", len(p.model.Published()), len(published))
	if !maps.Equal(set(published), set(p.model.Published())) {
		p.r.Fatalf("other events are published")
	}
}

func (p *pair) state(q model.Queued) string {
	switch {
	case q.Failed:
		return "failed"
	case q.Parked:
		return "parked"
	case q.Due.After(p.model.Now()):
		return "later"
	default:
		return "due"
	}
}

func set[K comparable](all []K) map[K]bool {
	s := map[K]bool{}
	for _, k := range all {
		s[k] = true
	}
	return s
}

func (p *pair) same(what string, modelled, real any) {
	if modelled != real {
		p.r.Fatalf("%s: %v in the model, %v in PostgreSQL", what, modelled, real)
	}
}

func (p *pair) exec(statement string, args ...any) {
	p.must(p.db.InTx(p.t.Context(), func(tx *postgres.Tx) error { return tx.Gorm(p.t.Context()).Exec(statement, args...).Error }))
}

func (p *pair) read(into any, query string) {
	p.must(p.db.InSnapshot(p.t.Context(), func(tx *postgres.Tx) error { return tx.Gorm(p.t.Context()).Raw(query).Scan(into).Error }))
}

func (p *pair) must(err error) {
	if err != nil {
		p.r.Fatal(err)
	}
}
