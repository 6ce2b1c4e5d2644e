package model_test

import (
	"errors"
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
		p.exec("TRUNCATE outbox_events, outbox_queue, outbox_claims, outbox_topics, outbox_published, outbox_discarded")
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
			"claim probes":       p.claimProbes,
			"settle":             p.settle,
			"settle the last":    p.settleTheLast,
			"refuse for long":    p.refuseForLong,
			"renew":              p.renew,
			"operator pauses":    p.pause,
			"operator resumes":   p.resume,
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
	p.claimed(claim, p.model.Claim(uuid.New(), "worker", limit, lease))
}

func (p *pair) claimProbes(*rapid.T) {
	claim, err := p.store().ClaimProbes(p.t.Context(), "worker", 100, lease)
	p.must(err)
	p.claimed(claim, p.model.ClaimProbes(uuid.New(), "worker", lease))
}

func (p *pair) claimed(claim, modelled store.Claim) {
	p.same("claimed", describe(modelled), describe(claim))
	if len(claim.Events) > 0 {
		p.tokens[claim.Token] = modelled.Token
		p.claims = append(p.claims, claim)
	}
}

func describe(c store.Claim) (text string) {
	for _, e := range c.Events {
		text += fmt.Sprintf("%s %s %d %q %t; ", e.ID, e.Topic, e.RetryCount, e.FailureCode, e.Overtaken)
	}
	return text + fmt.Sprintf("without payload %v, more %t, a topic is to be tried %t", c.NoPayload, c.More, c.NextProbe != nil)
}

// pick returns a claim. It may have ended.
func (p *pair) pick(r *rapid.T) store.Claim {
	if len(p.claims) == 0 {
		r.Skip("nothing was claimed")
	}
	return rapid.SampledFrom(p.claims).Draw(r, "claim")
}

func (p *pair) settle(r *rapid.T) { p.settleClaim(r, p.pick(r)) }

// settleTheLast finds a claim that usually has not ended.
func (p *pair) settleTheLast(r *rapid.T) {
	p.pick(r)
	p.settleClaim(r, p.claims[len(p.claims)-1])
}

// settleClaim writes any outcome for each event. Whoever halts an event also pauses its topic.
func (p *pair) settleClaim(r *rapid.T, c store.Claim) {
	s := p.settlement(c)
	s.End, s.Probe, s.RetryAll = rapid.Bool().Draw(r, "end"), rapid.Bool().Draw(r, "probe"), rapid.IntRange(0, 4).Draw(r, "retry all") == 0
	for _, e := range c.Events {
		failure := store.Failure{ID: e.ID, Code: rapid.SampledFrom([]string{"unroutable", "refused"}).Draw(r, "code")}
		switch rapid.IntRange(0, 6).Draw(r, "outcome") {
		case 0:
			s.Published = append(s.Published, e.ID)
			if rapid.Bool().Draw(r, "resumes") {
				s.Resumed = append(s.Resumed, e.Topic)
			}
			continue
		case 1:
			s.Overtaken = append(s.Overtaken, e.ID)
			continue
		case 2:
			failure.Final = true
		case 3:
			failure.Halt, s.Paused[e.Topic] = true, "no queue is bound"
		case 4:
			failure.Counts, failure.Delay, s.Paused[e.Topic] = true, time.Minute, "refused"
		case 5:
			failure.Counts = true
		default:
			continue // it has no answer yet
		}
		s.Failures = append(s.Failures, failure)
	}
	p.write(c, s)
}

func (p *pair) settlement(c store.Claim) store.Settlement {
	return store.Settlement{
		Token: c.Token, Paused: map[string]string{}, GiveUp: giveUp, FirstPause: time.Minute, LongestPause: 3 * time.Minute,
	}
}

const giveUp = 2 * time.Minute

// write settles, and compares the answers.
func (p *pair) write(c store.Claim, s store.Settlement) {
	done, err := p.store().Settle(p.t.Context(), s)
	p.must(err)
	s.Token = p.tokens[c.Token]
	modelled := p.model.Settle(s)
	p.same("held", modelled.Held, done.Held)
	if !maps.Equal(set(slices.Collect(maps.Keys(done.Failed))), set(slices.Collect(maps.Keys(modelled.Failed)))) {
		p.r.Fatalf("the model fails %v, PostgreSQL %v", modelled.Failed, done.Failed)
	}
}

// refuseForLong has the oldest due event refused once less than an event can fail.
func (p *pair) refuseForLong(*rapid.T) {
	for range store.LeastRefusals - 1 {
		before := len(p.claims)
		claim, err := p.store().Claim(p.t.Context(), "worker", 1, lease)
		p.must(err)
		p.claimed(claim, p.model.Claim(uuid.New(), "worker", 1, lease))
		if len(p.claims) == before {
			return
		}
		s := p.settlement(claim)
		s.End = true
		s.Failures = []store.Failure{{ID: claim.Events[0].ID, Counts: true, Code: "refused"}}
		p.model.Advance(time.Microsecond) // what the claim has made due comes first
		p.write(claim, s)
		p.model.Advance(time.Microsecond)
	}
}

func (p *pair) renew(r *rapid.T) {
	c := p.pick(r)
	_, err := p.store().Renew(p.t.Context(), []uuid.UUID{c.Token}, lease)
	p.must(err)
	p.model.Renew([]uuid.UUID{p.tokens[c.Token]}, lease)
}

// some is a topic, or all of them.
func some(r *rapid.T) string {
	return rapid.SampledFrom(append(topics, store.AllTopics)).Draw(r, "topic")
}

func (p *pair) pause(r *rapid.T) {
	topic := some(r)
	p.must(operate.New(p.pool).Pause(p.t.Context(), operate.NewDecision("ann", operate.CLI, "by topic"), topic, "a test"))
	p.model.Pause(topic, "ann")
}

func (p *pair) resume(r *rapid.T) {
	topic := some(r)
	err := operate.New(p.pool).Resume(p.t.Context(), operate.NewDecision("ann", operate.CLI, "by topic"), topic)
	if !errors.Is(err, operate.ErrNotPaused) {
		p.must(err)
	}
	p.same("resumed", p.model.Resume(topic), err == nil)
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
	p.exec("UPDATE outbox_queue SET refused_since = refused_since - $1 * interval '1 second'", d.Seconds())
	p.exec("UPDATE outbox_claims SET until = until - $1 * interval '1 second'", d.Seconds())
	p.exec("UPDATE outbox_topics SET until = until - $1 * interval '1 second' WHERE until < 'infinity'", d.Seconds())
	p.model.Advance(d)
}
