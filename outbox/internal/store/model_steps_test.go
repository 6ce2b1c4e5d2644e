package store_test

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/internal/storetest"
	"example.com/transactional-outbox/outbox/operate"
)

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
