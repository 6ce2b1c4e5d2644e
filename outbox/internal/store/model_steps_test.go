package store_test

import (
	"cmp"
	"errors"
	"maps"
	"reflect"
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
	e := outbox.Event{ID: uuid.New(), Topic: draw(p, topics...), AggregateID: aggregate, Payload: []byte{0, 255}, Traceparent: "t", Delay: draw(p, 0, 0, 0, 0, 0, 2*time.Hour)}
	if aggregate != "" {
		p.versions[aggregate]++
		e.Aggregate, e.Version, e.Supersedes = "order", p.versions[aggregate], draw(p, false, false, true)
	}
	tries, seq, hours := draw(p, 0, 0, store.LeastTries-3, store.LeastTries-2, store.LeastTries-1, store.LeastTries-1), int64(0), draw(p, 0, 1)
	p.must(pgx.BeginFunc(p.Context(), p.pool, func(tx pgx.Tx) error {
		return cmp.Or(outbox.Append(p.Context(), tx, e), tx.QueryRow(p.Context(),
			`WITH person AS (UPDATE outbox_events SET headers = '{"a": "b", "n": 1}' WHERE id = $1)
			UPDATE outbox_queue SET (retry_count, refused_since) = ($2, now() - nullif($3, 0) * interval '1 hour')
			WHERE id = $1 RETURNING seq`, e.ID, tries, hours).Scan(&seq))
	}))
	p.events = append(p.events, store.Event{
		ID: e.ID, Seq: seq, Topic: e.Topic, Aggregate: e.Aggregate, AggregateID: e.AggregateID,
		Version: e.Version, Supersedes: e.Supersedes, Payload: e.Payload, RetryCount: tries,
		ContentType: "application/json", Headers: map[string]string{"a": "b", "n": "1"}, Traceparent: "t",
	})
	p.model.Append(p.events[len(p.events)-1], e.Delay)
	p.due[e.ID] = p.model.Now().Add(e.Delay)
	if row := p.model.Rows[e.ID]; hours > 0 {
		row.RefusedSince = p.model.Now().Add(-time.Hour)
		p.model.Rows[e.ID] = row
	}
}

// claim claims until there are events, or until no more are due. A claim of 0 only puts events
// aside.
func (p *pair) claim(limit int) store.Claim {
	s, got := p.relay(), store.Claim{More: true}
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
		isNew := time.Since(a.CreatedAt).Abs() < time.Hour && a.Age >= 0
		a.CreatedAt, a.Age = b.CreatedAt, b.Age
		return isNew && reflect.DeepEqual(a, b)
	})
	isSoon := func(a, b *float64) bool { return a == b || a != nil && b != nil && max(*a-*b, *b-*a) < 5 }
	if !isSame || len(got.NoPayload) > 0 || got.Superseded != want.Superseded || !isSoon(got.NextDue, want.NextDue) || !isSoon(got.NextProbe, want.NextProbe) {
		p.Fatalf("claimed %+v\nwant %+v", got, want)
	}
	if len(got.Events) > 0 {
		p.claims = append(p.claims, got)
	}
}

// try claims probes. Before that, a claim puts aside all that is due and waits.
func (p *pair) try() {
	p.claim(0)
	switch draw(p, "append", "append", "pause all", "") {
	case "append":
		p.append("")
	case "pause all":
		p.pause(store.AllTopics)
	}
	s := p.relay()
	s.Forget()
	got, err := s.ClaimProbes(p.Context(), "test", all, lease)
	p.must(err)
	p.same(got, p.model.ClaimProbes(got.Token, all, lease, func(free []storetest.Row) { sortLike(free, got) }))
}

const reason = `it's "gone" \ $1 @x`

// settle writes any outcome of any claim, once or twice. The claim may have ended long before.
func (p *pair) settle() {
	c := draw(p, p.claims...)
	t := store.Settlement{
		Token: c.Token, End: draw(p, true, true, false), Longer: draw(p, true, false), Paused: map[string]string{},
		FirstPause: draw(p, 0, time.Minute), LongestPause: 90 * time.Second, GiveUp: draw(p, 0, time.Hour),
	}
	for _, e := range c.Events {
		f := store.Failure{ID: e.ID, Delay: draw(p, 0, 0, 2*time.Hour-time.Second/2), Code: draw(p, "refused", store.CodeSessionClosed), Reason: reason}
		outcome := draw(p, "published", "published", "refused", "refused", "refused", "refused", "final", "final", "final",
			"returned", "returned", "no answer", "no answer, paused", "retried")
		switch outcome {
		case "published":
			t.Published, t.Resumed = append(t.Published, e), append(t.Resumed, e.Topic)
		case "refused", "final":
			f.Counts, f.Final = true, outcome == "final"
			t.Failures = append(t.Failures, f)
		case "returned":
			f.Halt, f.Tried, f.Code, t.Paused[e.Topic] = true, true, store.CodeUnroutable, reason
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
		t.ProbeAgain = []string{topic}
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
	got, err := p.relay().Settle(p.Context(), t)
	p.must(err)
	want := p.model.Settle(t)
	haveFailed := func(s store.Settled) []uuid.UUID { return sorted(slices.Collect(maps.Keys(s.Failed))) }
	if got.Held != want.Held || !slices.Equal(haveFailed(got), haveFailed(want)) {
		p.Fatalf("settled %v, want %v", got, want)
	}
}

func (p *pair) renew(lease time.Duration) {
	var tokens []uuid.UUID
	for _, c := range p.claims {
		tokens = append(tokens, c.Token)
	}
	got, err := p.relay().Renew(p.Context(), tokens, lease)
	p.must(err)
	if want := p.model.Renew(tokens, lease); !slices.Equal(sorted(got), sorted(want)) {
		p.Fatalf("renewed %v, want %v", got, want)
	}
}

// look counts the events and reads them as an operator does. It repairs none: check has found none
// that is stranded.
func (p *pair) look() {
	now, want := p.model.Now(), store.Backlog{}
	for id, row := range p.model.Rows {
		switch p.model.Status(id) {
		case "pending":
			want.Pending++
		case "in_progress":
			want.InProgress++
		case "failed":
			want.Failed++
		}
		if row.Halted {
			want.Paused++
		}
		if row.FailedAt.IsZero() {
			want.OldestUnfinished = max(want.OldestUnfinished, now.Sub(p.due[id]).Seconds())
		}
		if row.FailedAt.IsZero() && !row.RefusedSince.IsZero() {
			want.OldestRefused = max(want.OldestRefused, now.Sub(row.RefusedSince).Seconds())
		}
	}
	repaired, _, err := p.relay().Repair(p.Context(), uuid.Nil, all)
	p.must(err)
	got, err := p.relay().Backlog(p.Context(), store.CountLimit)
	p.must(err)
	isNear := func(a, b float64) bool { return max(a-b, b-a) < 5 }
	if !isNear(got.OldestUnfinished, want.OldestUnfinished) || !isNear(got.OldestRefused, want.OldestRefused) ||
		got.Pending != want.Pending || got.InProgress != want.InProgress || got.Failed != want.Failed || got.Paused != want.Paused || repaired > 0 {
		p.Fatalf("there are %+v, want %+v, %d repaired", got, want, repaired)
	}
	events, err := p.operator.Get(p.Context(), slices.Collect(maps.Keys(p.last))...)
	p.must(err)
	for _, e := range events {
		row, there := p.model.Rows[e.ID]
		isPaused := there && (row.Halted || row.FailedAt.IsZero() && e.Worker == "" && p.star)
		if e.Status != p.model.Status(e.ID) || e.Paused != isPaused {
			p.Fatalf("an event is %+v, want %s, paused: %t", e, p.model.Status(e.ID), isPaused)
		}
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
	dry, err := p.operator.DryRun(p.Context(), operate.Discard, ids)
	p.must(err)
	got, err := p.operator.Discard(p.Context(), by, ids)
	p.must(err)
	token := uuid.New()
	p.model.Hold(token, ids)
	want := p.model.Discard(token, ids)
	p.model.Settle(store.Settlement{Token: token, End: true})
	if !slices.Equal(operate.IDsOf(got.Changed), sorted(want)) || !slices.Equal(operate.IDsOf(dry.Changed), sorted(want)) {
		p.Fatalf("discarded %v, dry %v, want %v", got.Changed, dry.Changed, want)
	}
	for _, e := range got.Changed {
		was := p.last[e.ID]
		if e.Status != operate.Discarded || e.FailureCode+e.FailureReason != was.Code || (e.FailedAt != nil) != (was.Status == operate.Failed) {
			p.Fatalf("discarded %+v, it was %+v", e, was)
		}
	}
}

func (p *pair) replay(ids ...uuid.UUID) {
	dry, err := p.operator.DryRun(p.Context(), operate.Replay, ids)
	p.must(err)
	got, err := p.operator.Replay(p.Context(), by, ids)
	p.must(err)
	failed := slices.DeleteFunc(slices.Compact(sorted(ids)), func(id uuid.UUID) bool { return p.model.Status(id) != operate.Failed })
	p.model.Replay(ids)
	if !slices.Equal(operate.IDsOf(got.Changed), failed) || !slices.Equal(operate.IDsOf(dry.Changed), failed) {
		p.Fatalf("replayed %v, dry %v, want %v", got.Changed, dry.Changed, failed)
	}
	for _, e := range got.Changed {
		p.due[e.ID] = p.model.Now()
		if e.Status != operate.Pending || e.RetryCount != 0 || e.FailureCode != "" || e.FailedAt != nil {
			p.Fatalf("replayed %+v", e)
		}
	}
}

func (p *pair) pause(topic string) {
	p.must(p.operator.Pause(p.Context(), by, topic, "test"))
	p.model.Pause(topic)
	p.star = p.star || topic == store.AllTopics
}

func (p *pair) resume(topic string) {
	if err := p.operator.Resume(p.Context(), by, topic); !errors.Is(err, operate.ErrNotPaused) {
		p.must(err)
	}
	p.model.Resume(topic)
	p.star = p.star && topic != store.AllTopics
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
