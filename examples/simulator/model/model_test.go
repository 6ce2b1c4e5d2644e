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
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/simulator/model"
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
	pool, err := pgxpool.New(t.Context(), servers.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := outbox.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		p := &pair{t: t, r: r, pool: pool, model: model.New(time.Now()), tokens: map[uuid.UUID]uuid.UUID{}}
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
			"lose a payload":     p.lose,
			"claim":              p.claim,
			"claim again":        p.claim,
			"mark published":     p.markPublished,
			"overtake":           p.overtake,
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
	pool   *pgxpool.Pool
	model  *model.Outbox
	orders []uuid.UUID
	events []uuid.UUID
	counts [2]int                  // versions of each order
	tokens map[uuid.UUID]uuid.UUID // the model's token of each real one
	claims []store.Claim           // all that ever were, with the real tokens
}

// store returns the real outbox. Each one is new, because a store remembers for some seconds where
// the due events begin, and the test changes the past.
func (p *pair) store() *store.Store { return store.New(p.pool) }

var topics = []string{"order.created", "order.confirmed"}

const lease = time.Minute

func (p *pair) append(r *rapid.T) {
	n := rapid.IntRange(0, len(p.orders)-1).Draw(r, "order")
	topic := rapid.SampledFrom(topics).Draw(r, "topic")
	supersedes := rapid.IntRange(0, 4).Draw(r, "supersedes") == 0
	p.counts[n]++
	id := uuid.New()
	p.events = append(p.events, id)
	p.model.Append(id, p.orders[n], p.counts[n], topic, supersedes)
	p.must(pgx.BeginFunc(p.t.Context(), p.pool, func(tx pgx.Tx) error {
		return outbox.Append(p.t.Context(), tx, outbox.Event{
			ID: id, Aggregate: "order", AggregateID: p.orders[n].String(), Version: p.counts[n], Topic: topic, Payload: []byte("{}"), Supersedes: supersedes,
		})
	}))
}

// lose deletes an event from the log, seldom.
func (p *pair) lose(r *rapid.T) {
	if len(p.events) == 0 || rapid.IntRange(0, 9).Draw(r, "seldom") > 0 {
		r.Skip("not now")
	}
	id := rapid.SampledFrom(p.events).Draw(r, "event")
	p.exec("DELETE FROM outbox_events WHERE id = $1", id)
	p.model.Lose(id)
}

func (p *pair) claim(r *rapid.T) {
	limit := rapid.SampledFrom([]int{1, 3, 100}).Draw(r, "limit")
	claim, err := p.store().Claim(p.t.Context(), "worker", limit, lease)
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

func describe(c store.Claim) (text string) {
	for _, e := range c.Events {
		text += fmt.Sprintf("%s %s %d %q %t; ", e.ID, e.Topic, e.RetryCount, e.FailureCode, e.Overtaken)
	}
	return text + fmt.Sprint(c.Lost)
}

// pick returns a claim, and at least one of its events. The claim may have ended.
func (p *pair) pick(r *rapid.T) (c store.Claim, some []store.Event) {
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
	p.must(p.store().MarkPublished(p.t.Context(), real, ids))
	p.model.MarkPublished(modelled, ids)
}

func (p *pair) overtake(r *rapid.T) {
	c, some := p.pick(r)
	var ids []uuid.UUID
	for _, e := range some {
		ids = append(ids, e.ID)
	}
	p.must(p.store().Overtake(p.t.Context(), c.Token, ids))
	p.model.Overtake(p.tokens[c.Token], ids)
}

func (p *pair) reschedule(r *rapid.T) {
	c, some := p.pick(r)
	var failures []store.Failure
	for _, e := range some {
		failures = append(failures, store.Failure{
			ID: e.ID, Delay: rapid.SampledFrom([]time.Duration{0, time.Minute, 5 * time.Minute}).Draw(r, "delay"),
			Code: rapid.SampledFrom([]string{"unroutable", "refused"}).Draw(r, "code"), Counts: rapid.Bool().Draw(r, "counts"),
		})
	}
	n, err := p.store().Reschedule(p.t.Context(), c.Token, failures)
	p.must(err)
	p.same("rescheduled", p.model.Reschedule(p.tokens[c.Token], failures), n)
}

func (p *pair) fail(r *rapid.T) {
	c, some := p.pick(r)
	failure := store.Failure{ID: some[0].ID, Code: "refused", Counts: rapid.Bool().Draw(r, "counts")}
	_, n, err := p.store().Fail(p.t.Context(), c.Token, failure)
	p.must(err)
	_, modelled := p.model.Fail(p.tokens[c.Token], failure)
	p.same("failed", modelled, n)
}

func (p *pair) release(r *rapid.T) {
	c, _ := p.pick(r)
	held, err := p.store().Release(p.t.Context(), c.Token)
	p.must(err)
	p.same("released", p.model.Release(p.tokens[c.Token]), held)
}

func (p *pair) retryUnroutable(r *rapid.T) {
	topic := rapid.SampledFrom(topics).Draw(r, "topic")
	n, err := p.store().RetryUnroutable(p.t.Context(), topic, 100)
	p.must(err)
	p.same("made due", p.model.RetryUnroutable(topic, 100), n)
}

func (p *pair) probeRoutes(*rapid.T) {
	n, err := p.store().ProbeRoutes(p.t.Context())
	p.must(err)
	p.same("probes", p.model.ProbeRoutes(), n)
}

func (p *pair) replay(r *rapid.T) {
	if len(p.events) == 0 {
		r.Skip("there are no events")
	}
	id := rapid.SampledFrom(p.events).Draw(r, "event")
	by := operate.NewDecision("ann", operate.CLI, "by id")
	replayed, err := operate.New(p.pool).Replay(p.t.Context(), by, []uuid.UUID{id})
	p.must(err)
	p.same("replayed", p.model.Replay(id), len(replayed.Changed) == 1)
}

// advance moves all times of PostgreSQL into the past, instead of its clock.
func (p *pair) advance(r *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{30 * time.Second, time.Minute, 5 * time.Minute}).Draw(r, "time")
	p.exec("UPDATE outbox_queue SET available_at = available_at - $1 * interval '1 second' WHERE available_at < 'infinity'", d.Seconds())
	p.exec("UPDATE outbox_claims SET until = until - $1 * interval '1 second'", d.Seconds())
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

// compare compares the queue, the claims, and the events that are done.
func (p *pair) compare() {
	rows := collect[row](p, `SELECT q.id, retry_count AS attempts, coalesce(failure_code, '') AS code,
		CASE WHEN failed_at IS NOT NULL THEN 'failed' WHEN available_at = 'infinity' THEN 'parked'
		     WHEN available_at <= now() THEN 'due' ELSE 'later' END AS state,
		EXISTS (SELECT FROM outbox_claims WHERE q.id = ANY (events)) AS claimed
		FROM outbox_queue q ORDER BY seq`, pgx.RowToStructByPos[row])
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
	p.compareIDs("published", "SELECT id FROM outbox_published", p.model.Published())
	p.compareIDs("overtaken", "SELECT id FROM outbox_discarded WHERE overtaken", p.model.Overtaken())
}

func (p *pair) compareIDs(what, query string, modelled []uuid.UUID) {
	ids := collect(p, query, pgx.RowTo[uuid.UUID])
	p.same(what+" events", len(modelled), len(ids))
	if !maps.Equal(set(ids), set(modelled)) {
		p.r.Fatalf("other events are %s", what)
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
	_, err := p.pool.Exec(p.t.Context(), statement, args...)
	p.must(err)
}

func collect[T any](p *pair, query string, scan pgx.RowToFunc[T]) []T {
	rows, err := p.pool.Query(p.t.Context(), query)
	p.must(err)
	all, err := pgx.CollectRows(rows, scan)
	p.must(err)
	return all
}

func (p *pair) must(err error) {
	if err != nil {
		p.r.Fatal(err)
	}
}
