package store_test

import (
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/internal/storetest"
	"example.com/transactional-outbox/outbox/operate"
)

// TestP7TheStoreDoesWhatTheModelSays makes the same random calls to the store and to its model:
// those of relays and of operators. After each one, both must have answered the same, and must have
// the same events with the same status. At the end all events must be done, and none may be lost.
// All runs together must take the transitions between the statuses. One relay of each run uses
// another mode of pgx, and all have defaults of the role that do not suit them.
func TestP7TheStoreDoesWhatTheModelSays(t *testing.T) {
	t.Parallel()
	pool, taken := dbtest.Migrated(t), map[string]int{}
	operator := operate.New(pool)
	operator.Logger = slog.New(slog.DiscardHandler)
	var pools []*pgxpool.Pool
	runs := 0
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		config := pool.Config()
		config.ConnConfig.DefaultQueryExecMode = mode
		maps.Copy(config.ConnConfig.RuntimeParams, map[string]string{
			"bytea_output": "escape", "DateStyle": "German", "default_transaction_read_only": "on", "IntervalStyle": "sql_standard",
			"default_transaction_isolation": "serializable", "TimeZone": "Asia/Kathmandu",
		})
		one, err := pgxpool.NewWithConfig(t.Context(), config)
		dbtest.Must(t, err)
		t.Cleanup(one.Close)
		pools = append(pools, one)
	}
	rapid.Check(t, func(r *rapid.T) {
		p := &pair{T: r, pool: pool, operator: operator, versions: map[string]int{}, due: map[uuid.UUID]time.Time{}, taken: taken}
		for i := range pools { // all but one use the first mode: the others are slower
			p.stores = append(p.stores, store.New(pools[i/4*(runs%len(pools))]))
		}
		runs++
		p.model = storetest.New(func() time.Time { return time.Now().Add(p.passed) })
		p.exec(`DELETE FROM outbox_events; DELETE FROM outbox_queue; DELETE FROM outbox_claims; DELETE FROM outbox_topics; DELETE FROM outbox_done`)
		r.Repeat(map[string]func(*rapid.T){
			"":               func(*rapid.T) { p.check() },
			"append":         func(*rapid.T) { p.append(draw(p, "a", "b", "c", "")) },
			"append another": func(*rapid.T) { p.append(draw(p, "a", "b")) },
			"claim all":      func(*rapid.T) { p.claim(all) },
			"claim few":      func(*rapid.T) { p.claim(draw(p, 1, 1, 2)) },
			"try topics":     func(*rapid.T) { p.try() },
			"settle":         func(*rapid.T) { p.settle() },
			"settle another": func(*rapid.T) { p.settle() },
			"claim, settle":  func(*rapid.T) { p.claim(all); p.settle() },
			"settle all":     func(*rapid.T) { p.claim(all); p.settle() },
			"publish late": func(*rapid.T) {
				late := []store.Event{draw(p, p.events...), draw(p, p.events...)}
				p.write(store.Settlement{Published: slices.CompactFunc(late, func(a, b store.Event) bool { return a.ID == b.ID })})
			},
			"renew": func(*rapid.T) { p.renew(draw(p, lease, 2*time.Hour)) },
			"look":  func(*rapid.T) { p.look() },
			"crash": func(*rapid.T) {
				crashed := draw(p, p.claims...).Token
				p.claims = slices.DeleteFunc(p.claims, func(c store.Claim) bool { return c.Token == crashed })
			},
			"discard":        func(*rapid.T) { p.discard(draw(p, p.queue("")...), draw(p, p.events...).ID) },
			"discard failed": func(*rapid.T) { p.discard(draw(p, p.queue("failed")...)) },
			"replay":         func(*rapid.T) { p.replay(draw(p, p.queue("failed")...), draw(p, p.events...).ID); p.look() },
			"pause":          func(*rapid.T) { p.pause(draw(p, "x", "x", "y", "y", store.AllTopics)) },
			"resume":         func(*rapid.T) { p.resume(draw(p, "x", "y", store.AllTopics, store.AllTopics)) },
			"hour passes":    func(*rapid.T) { p.hourPasses() },
		})
		p.drain()
	})
	t.Logf("transitions: %v", taken)
	for _, must := range []string{
		"pending → in_progress", "in_progress → published", "in_progress → pending", "in_progress → failed", "pending → superseded",
		"failed → superseded", "failed → pending", "failed → discarded", "pending → discarded", "pending → published", "superseded → published",
	} {
		if taken[must] == 0 && store.IsFirstSeed() {
			t.Errorf("no event went %s", must)
		}
	}
}

const (
	all   = 100 // more events than there are
	lease = time.Minute
)

var topics = []string{"x", "y"}

// pair is the store and its model.
type pair struct {
	*rapid.T
	pool     *pgxpool.Pool
	stores   []*store.Store // each remembers other things
	operator *operate.Operator
	model    *storetest.Model
	passed   time.Duration // hours that the clock of the model is ahead
	versions map[string]int
	events   []store.Event
	due      map[uuid.UUID]time.Time // since they were due, or replayed
	claims   []store.Claim           // of relays that have not settled all, or settle twice
	last     map[uuid.UUID]state
	star     bool           // all topics are paused
	taken    map[string]int // how often events went from one status to another
}

// state is what is compared of an event.
type state struct {
	ID              uuid.UUID
	Status          string
	Tries           int
	Code            string
	Halted, Refused bool
	Wrong           int // all events that nothing makes due, and aggregates with several in flight
}

// draw chooses a value. If there is none, another step is taken.
func draw[T any](p *pair, from ...T) T {
	if len(from) == 0 {
		p.Skip("there is none")
	}
	return rapid.SampledFrom(from).Draw(p.T, "chosen")
}

// relay chooses one of the stores.
func (p *pair) relay() *store.Store { return p.stores[draw(p, 0, 1, 2, 3, 4)] }

func (p *pair) must(err error) {
	if err != nil {
		p.Fatal(err)
	}
}

func (p *pair) exec(sql string) {
	_, err := p.pool.Exec(p.Context(), sql)
	p.must(err)
}

func read[T any](p *pair, row pgx.RowToFunc[T], sql string) []T {
	found, err := p.pool.Query(p.Context(), sql)
	p.must(err)
	values, err := pgx.CollectRows(found, row)
	p.must(err)
	return values
}

var statesSQL = `
	SELECT s.id, status, coalesce(q.retry_count, 0), concat(q.failure_code, q.failure_reason), coalesce(halted, false), refused_since IS NOT NULL,
		(` + store.StrandedSQL + `) + (` + store.HaltedForEverSQL + `) + (SELECT count(*) FROM (
			SELECT FROM outbox_claims c, unnest(events) flying JOIN outbox_queue q ON q.id = flying
			WHERE until > now() AND aggregate <> '' GROUP BY aggregate_id HAVING count(*) > 1) two)
	FROM outbox_status s LEFT JOIN outbox_queue q USING (id)`

// check compares all events.
func (p *pair) check() {
	now := map[uuid.UUID]state{}
	for _, s := range read(p, pgx.RowToStructByPos[state], statesSQL) {
		now[s.ID] = s
		if was := p.last[s.ID].Status; was != s.Status && was != "" {
			p.taken[was+" → "+s.Status]++
		}
	}
	for _, e := range p.events {
		row := p.model.Rows[e.ID]
		if want := (state{e.ID, p.model.Status(e.ID), row.RetryCount, row.Code + row.Reason, row.Halted, !row.RefusedSince.IsZero(), 0}); now[e.ID] != want {
			p.Fatalf("an event is %+v, want %+v", now[e.ID], want)
		}
	}
	p.last = now
}

// drain publishes all that is left. What is superseded must have a newer event that supersedes it.
func (p *pair) drain() {
	p.pause(store.AllTopics)
	p.look()
	p.replay(p.queue("")...)
	p.look()
	for _, topic := range append(topics, store.AllTopics) {
		p.resume(topic)
	}
	for range 3 {
		p.hourPasses()
	}
	for left := len(p.events); left > 0 && len(p.model.Rows) > 0; left-- {
		c := p.claim(all)
		p.write(store.Settlement{Token: c.Token, End: true, Published: c.Events})
		p.check()
	}
	for _, e := range p.events {
		isNewer := func(o store.Event) bool {
			return o.Supersedes && o.AggregateID == e.AggregateID && o.Version > e.Version
		}
		switch status := p.last[e.ID].Status; {
		case status == "published", status == "discarded", status == "superseded" && slices.ContainsFunc(p.events, isNewer):
		default:
			p.Fatalf("an event is lost: %v", p.last[e.ID])
		}
	}
	p.must(p.relay().DeleteAll(p.Context()))
	if left := read(p, pgx.RowToStructByPos[state], statesSQL); len(left) > 0 {
		p.Fatalf("the janitor leaves %v", left)
	}
}
