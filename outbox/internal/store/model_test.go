package store_test

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/internal/storetest"
	"example.com/transactional-outbox/outbox/operate"
)

// TestP7TheStoreDoesWhatTheModelSays makes the same random calls to the store and to its model:
// those of relays and of operators. After each one, both must have answered the same, and must have
// the same events with the same status. At the end all events must be done, and none may be lost.
// All runs together must take the transitions between the statuses.
func TestP7TheStoreDoesWhatTheModelSays(t *testing.T) {
	t.Parallel()
	pool, taken := dbtest.Migrated(t), map[string]int{}
	operator := operate.New(pool)
	operator.Logger = slog.New(slog.DiscardHandler)
	rapid.Check(t, func(r *rapid.T) {
		p := &pair{T: r, pool: pool, stores: []*store.Store{store.New(pool), store.New(pool)}, operator: operator, versions: map[string]int{}, taken: taken}
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
				p.write(store.Settlement{Published: []store.Event{draw(p, p.events...)}})
			},
			"renew": func(*rapid.T) { p.renew() },
			"crash": func(*rapid.T) {
				crashed := draw(p, p.claims...).Token
				p.claims = slices.DeleteFunc(p.claims, func(c store.Claim) bool { return c.Token == crashed })
			},
			"discard":        func(*rapid.T) { p.discard(draw(p, p.queue("")...)) },
			"discard failed": func(*rapid.T) { p.discard(draw(p, p.queue("failed")...)) },
			"replay":         func(*rapid.T) { p.replay(draw(p, p.queue("failed")...)) },
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
	claims   []store.Claim // of relays that have not settled all, or settle twice
	last     map[uuid.UUID]state
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
	SELECT s.id, status, coalesce(q.retry_count, 0), coalesce(q.failure_code, ''), coalesce(halted, false), refused_since IS NOT NULL,
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
		if want := (state{e.ID, p.model.Status(e.ID), row.RetryCount, row.Code, row.Halted, !row.RefusedSince.IsZero(), 0}); now[e.ID] != want {
			p.Fatalf("an event is %+v, want %+v", now[e.ID], want)
		}
	}
	p.last = now
}

// append commits an event of the aggregate, or of none. It may have been tried before.
func (p *pair) append(aggregate string) {
	e := outbox.Event{ID: uuid.New(), Topic: draw(p, topics...), AggregateID: aggregate, Payload: []byte("{}"), Delay: draw(p, 0, 0, 0, 0, 0, 2*time.Hour)}
	if aggregate != "" {
		p.versions[aggregate]++
		e.Aggregate, e.Version, e.Supersedes = "order", p.versions[aggregate], draw(p, false, false, true)
	}
	tries, seq := draw(p, 0, 0, store.LeastTries-3, store.LeastTries-1), int64(0)
	p.must(pgx.BeginFunc(p.Context(), p.pool, func(tx pgx.Tx) error {
		return cmp.Or(outbox.Append(p.Context(), tx, e), tx.QueryRow(p.Context(),
			"UPDATE outbox_queue SET retry_count = $2 WHERE id = $1 RETURNING seq", e.ID, tries).Scan(&seq))
	}))
	p.events = append(p.events, store.Event{
		ID: e.ID, Seq: seq, Topic: e.Topic, Aggregate: e.Aggregate, AggregateID: e.AggregateID,
		Version: e.Version, Supersedes: e.Supersedes, Payload: e.Payload, RetryCount: tries,
	})
	p.model.Append(p.events[len(p.events)-1], e.Delay)
}

// claim claims until there are events, or until no more are due. A claim of 0 only puts events
// aside.
func (p *pair) claim(limit int) store.Claim {
	s, got := p.stores[draw(p, 0, 1)], store.Claim{More: true}
	for times := 0; got.More && len(got.Events) == 0; times++ {
		if times == all {
			p.Fatalf("no claim of %d takes events, and there are more", limit)
		}
		if s.ReadAll(); limit == all || limit == 0 {
			s.Forget()
		}
		var err error
		got, err = s.Claim(p.Context(), "test", limit, lease)
		p.must(err)
		got.More = got.More && limit > 0
	}
	want := p.model.Claim(got.Token, len(got.Events), lease, func(free []storetest.Row) {
		if limit == all && len(free) != len(got.Events) || min(limit, len(free)) > 0 && len(got.Events) == 0 {
			p.Fatalf("claimed %v of %v", got.Events, free)
		}
		sortLike(free, got)
	})
	p.same(got, want)
	if limit < all { // the store brings back some of the halted events, and the model all
		halted := read(p, pgx.RowTo[uuid.UUID], "SELECT id FROM outbox_queue WHERE halted")
		for id, row := range p.model.Rows {
			row.Halted = slices.Contains(halted, id)
			p.model.Rows[id] = row
		}
	}
	return got
}

// sortLike puts the events first that the store has claimed, in its order.
func sortLike(rows []storetest.Row, c store.Claim) {
	place := func(r storetest.Row) int {
		i := slices.IndexFunc(c.Events, func(e store.Event) bool { return e.ID == r.ID })
		return (i + all + 1) % (all + 1)
	}
	slices.SortStableFunc(rows, func(a, b storetest.Row) int { return place(a) - place(b) })
}

// same compares a claim of the store with that of the model.
func (p *pair) same(got, want store.Claim) {
	slices.SortFunc(want.Events, func(a, b store.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	isSame := slices.EqualFunc(got.Events, want.Events, func(a, b store.Event) bool {
		return a.ID == b.ID && a.Seq == b.Seq && a.Version == b.Version && a.Supersedes == b.Supersedes && a.RetryCount == b.RetryCount
	})
	isSoon := func(a, b *float64) bool { return a == b || a != nil && b != nil && max(*a-*b, *b-*a) < 5 }
	if !isSame || len(got.NoPayload) > 0 || got.Superseded != want.Superseded || !isSoon(got.NextDue, want.NextDue) || !isSoon(got.NextTrial, want.NextTrial) {
		p.Fatalf("claimed %+v\nwant %+v", got, want)
	}
	if len(got.Events) > 0 {
		p.claims = append(p.claims, got)
	}
}

// try claims trial events. Before that, a claim puts aside all that is due and waits.
func (p *pair) try() {
	if p.model.Copy().ClaimTrials(uuid.Nil, 0, 0, func([]storetest.Row) {}).NextTrial == nil {
		p.Skip("no relay has paused a topic")
	}
	p.claim(0)
	if draw(p, true, false) {
		p.append("")
	}
	s := p.stores[draw(p, 0, 1)]
	s.Forget()
	got, err := s.ClaimTrials(p.Context(), "test", all, lease)
	p.must(err)
	p.same(got, p.model.ClaimTrials(got.Token, all, lease, func(free []storetest.Row) { sortLike(free, got) }))
}

// settle writes any outcome of any claim, once or twice. The claim may have ended long before.
func (p *pair) settle() {
	c := draw(p, p.claims...)
	t := store.Settlement{
		Token: c.Token, End: draw(p, true, true, false), Trial: draw(p, true, false), Paused: map[string]string{},
		FirstPause: draw(p, 0, time.Minute), LongestPause: 90 * time.Second, GiveUp: draw(p, 0, time.Hour),
	}
	for _, e := range c.Events {
		f := store.Failure{ID: e.ID, Delay: draw(p, 0, 0, 2*time.Hour), Code: "refused"}
		outcome := draw(p, "published", "published", "refused", "refused", "refused", "final", "final", "final", "final",
			"returned", "returned", "no answer", "no answer, paused", "released")
		switch outcome {
		case "published":
			t.Published, t.Resumed = append(t.Published, e), append(t.Resumed, e.Topic)
		case "refused", "final":
			f.Counts, f.Final = true, outcome == "final"
			t.Failures = append(t.Failures, f)
		case "returned":
			f.Halt, f.Tried, f.Code, t.Paused[e.Topic] = true, true, store.CodeUnroutable, "no queue"
			t.Failures = append(t.Failures, f)
		case "no answer":
			f.Tried, f.Code = true, store.CodeNoAnswer
			t.Failures = append(t.Failures, f)
		case "no answer, paused":
			t.Halted, t.Paused[e.Topic] = append(t.Halted, e.ID), "no answer"
		}
	}
	switch topic := draw(p, topics...); draw(p, "paused", "resumed", "tried again", "", "") {
	case "paused":
		t.Paused[topic] = "no connection"
	case "resumed":
		t.Resumed = append(t.Resumed, topic)
	case "tried again":
		t.TrialAgain = []string{topic}
	}
	t.Resumed = slices.DeleteFunc(t.Resumed, func(topic string) bool { return t.Paused[topic] != "" })
	for range draw(p, 1, 1, 2) {
		p.write(t)
	}
	if t.End && draw(p, true, true, false) {
		p.claims = slices.DeleteFunc(p.claims, func(o store.Claim) bool { return o.Token == c.Token })
	}
}

func (p *pair) write(t store.Settlement) {
	got, err := p.stores[0].Settle(p.Context(), t)
	p.must(err)
	want := p.model.Settle(t)
	haveFailed := func(s store.Settled) []uuid.UUID { return sorted(slices.Collect(maps.Keys(s.Failed))) }
	if got.Held != want.Held || !slices.Equal(haveFailed(got), haveFailed(want)) {
		p.Fatalf("settled %v, want %v", got, want)
	}
}

func (p *pair) renew() {
	var tokens []uuid.UUID
	for _, c := range p.claims {
		tokens = append(tokens, c.Token)
	}
	got, err := p.stores[0].Renew(p.Context(), tokens, lease)
	p.must(err)
	if want := p.model.Renew(tokens, lease); !slices.Equal(sorted(got), sorted(want)) {
		p.Fatalf("renewed %v, want %v", got, want)
	}
}

func sorted(ids []uuid.UUID) []uuid.UUID {
	return slices.SortedFunc(slices.Values(ids), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}

// queue returns the events that are not done, or those of a status.
func (p *pair) queue(status string) (ids []uuid.UUID) {
	for _, e := range p.events {
		if _, there := p.model.Rows[e.ID]; there && (status == "" || p.model.Status(e.ID) == status) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

var by = operate.NewDecision("test", operate.CLI, operate.ByIDs)

func (p *pair) discard(ids ...uuid.UUID) {
	got, err := p.operator.Discard(p.Context(), by, ids)
	p.must(err)
	token := uuid.New()
	p.model.Hold(token, ids)
	want := p.model.Discard(token, ids)
	p.model.Settle(store.Settlement{Token: token, End: true})
	if !slices.Equal(operate.IDsOf(got.Changed), sorted(want)) {
		p.Fatalf("discarded %v, want %v", got.Changed, want)
	}
}

func (p *pair) replay(failed ...uuid.UUID) {
	got, err := p.operator.Replay(p.Context(), by, failed)
	p.must(err)
	p.model.Replay(failed)
	if len(got.Changed) != len(failed) {
		p.Fatalf("replayed %v, want %v", got.Changed, failed)
	}
}

func (p *pair) pause(topic string) {
	p.must(p.operator.Pause(p.Context(), by, topic, "test"))
	p.model.Pause(topic)
}

func (p *pair) resume(topic string) {
	if err := p.operator.Resume(p.Context(), by, topic); !errors.Is(err, operate.ErrNotPaused) {
		p.must(err)
	}
	p.model.Resume(topic)
}

// hourPasses changes the times in the tables. Only the database's clock counts.
func (p *pair) hourPasses() {
	p.passed += time.Hour
	p.exec(`
		UPDATE outbox_queue SET (available_at, due_since, refused_since) =
			(available_at - interval '1 hour', due_since - interval '1 hour', refused_since - interval '1 hour');
		UPDATE outbox_claims SET until = until - interval '1 hour';
		UPDATE outbox_topics SET (since, until) = (since - interval '1 hour', until - interval '1 hour')`)
}

// drain publishes all that is left. What is superseded must have a newer event that supersedes it.
func (p *pair) drain() {
	p.replay(p.queue("failed")...)
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
}
