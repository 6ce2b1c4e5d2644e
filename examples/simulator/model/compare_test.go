package model_test

import (
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/simulator/model"
)

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
		CASE WHEN failed_at IS NOT NULL THEN 'failed' WHEN halted THEN 'halted' WHEN available_at = 'infinity' THEN 'parked'
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
	p.compareTopics()
	p.compareIDs("published", "SELECT id FROM outbox_published", p.model.Published())
	p.compareIDs("overtaken", "SELECT id FROM outbox_discarded WHERE overtaken", p.model.Overtaken())
}

// topic is what both know about a row of outbox_topics.
type topic struct {
	Name      string
	Pause     float64
	Unlimited bool
	Over      bool // until has passed
	Operator  string
	Resumed   bool
}

// compareTopics also checks that each halted event has a row for its topic. Without one, nobody
// would ever make it due.
func (p *pair) compareTopics() {
	rows := collect[topic](p, `SELECT topic, pause, until = 'infinity', until <= now(), coalesce(operator, ''), resumed
		FROM outbox_topics ORDER BY topic`, pgx.RowToStructByPos[topic])
	var modelled []topic
	for _, t := range p.model.Topics() {
		over := !t.Until.IsZero() && !t.Until.After(p.model.Now())
		modelled = append(modelled, topic{t.Name, t.Pause.Seconds(), t.Until.IsZero(), over, t.Operator, t.Resumed})
	}
	if !slices.Equal(rows, modelled) {
		p.r.Fatalf("the model has the topics\n%+v\nPostgreSQL has\n%+v", modelled, rows)
	}
	const strandedSQL = `SELECT id FROM outbox_queue WHERE halted AND topic NOT IN (SELECT topic FROM outbox_topics)`
	if stranded := collect(p, strandedSQL, pgx.RowTo[uuid.UUID]); len(stranded) > 0 {
		p.r.Fatalf("halted, and their topics have no row: %v", stranded)
	}
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
	case q.Halted:
		return "halted"
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
