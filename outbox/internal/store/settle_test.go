package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestP12Fenced runs each step with the token of a claim that has ended, and then with that of the
// current claim.
func TestP12Fenced(t *testing.T) {
	t.Parallel()
	steps := map[string]struct {
		Settlement
		want string
		held int
	}{
		"the end":   {Settlement{End: true}, "pending", 0},
		"a delay":   {Settlement{Failures: []Failure{{Delay: time.Hour}}}, "pending", 1},
		"a halt":    {Settlement{Failures: []Failure{{Halt: true}}}, "pending", 1},
		"a failure": {Settlement{Failures: []Failure{{Final: true}}}, "failed", 1},
	}
	for name, s := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := f.appendMany(1)
			stale := f.claim(10).Token
			f.endLeases()
			holder := f.claim(10).Token
			for i := range s.Failures {
				s.Failures[i].ID = ids[0]
			}
			s.Token = stale
			if held := f.settle(s.Settlement).Held; held != 0 {
				t.Errorf("with the token of a lost lease: changed %d", held)
			}
			f.wantStatus("in_progress", ids...)
			s.Token = holder
			if held := f.settle(s.Settlement).Held; held != s.held {
				t.Errorf("with the token of the lease: changed %d", held)
			}
			if got := f.row(ids[0]); got.Status != s.want || got.RetryCount != 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestAMarkNeedsNoLease: a confirm is a fact. An event that another relay holds, or that was
// discarded meanwhile, is published, and stays so, whatever a claim does.
func TestAMarkNeedsNoLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	f.fail(ids[0])
	must(t, f.decide(discardSQL, ids[0]))
	c := f.wantClaimed(ids[1])
	f.mark(ids...)
	f.mark(ids...)
	f.wantStatus("published", ids...)
	for _, final := range []bool{false, true} {
		if held := f.reschedule(c, Failure{ID: ids[1], Final: final, Code: "refused"}); held != 0 {
			t.Errorf("changed %d published events", held)
		}
	}
	f.finish(c)
	f.wantStatus("published", ids...)
	f.mark(uuid.New()) // of an event that is nowhere
	if n := f.int("SELECT count(*) FROM outbox_done WHERE status = 'published'"); n != 2 {
		t.Errorf("%d events are published, want 2", n)
	}
}

func TestAnyFailureReasonCanBeStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, reason := range []string{
		strings.Repeat("ä", 4000), strings.Repeat("x", 1023) + "€", "nul \x00 inside", "bad \xff utf-8", `\u0000 "`, "",
	} {
		ids := f.appendMany(1)
		failure := Failure{ID: ids[0], Code: "refused", Reason: reason}
		c := f.claim(10)
		if held := f.reschedule(c, failure); held != 1 {
			t.Errorf("with %.10q…: %d held", reason, held)
		}
		f.settle(Settlement{Token: c.Token, End: true, Paused: map[string]string{"order.created": reason}})
		f.exec("DELETE FROM outbox_topics")
		if got := read[string](f, "SELECT failure_reason FROM outbox_queue WHERE id = $1", ids[0])[0]; got != truncate(reason) {
			t.Errorf("stored %.10q… for %.10q…", got, reason)
		}
	}
}

// TestARepeatedSettlementCountsOneAttempt: a relay repeats one if its answer was lost, and is told
// again which events have failed. A repeated failure does not undo a replay, if the operator was
// faster.
func TestARepeatedSettlementCountsOneAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(3)
	c := f.claim(10)
	for _, want := range []Settled{{Held: 3}, {Held: 0}} { // the first answer was lost
		got := f.settle(Settlement{Token: c.Token, Failures: []Failure{
			{ID: ids[0], Delay: time.Hour, Counts: true, Code: "refused"},
			{ID: ids[1], Final: true, Counts: true, Code: "refused", Reason: "full"},
			{ID: ids[2], Final: true, Counts: true, Code: "refused"},
		}})
		if _, failed := got.Failed[ids[1]]; !failed || got.Held != want.Held {
			t.Errorf("settled %+v", got)
		}
		must(t, f.decide(replaySQL, ids[2]))
	}
	for _, id := range ids[:2] {
		if got := f.row(id).RetryCount; got != 1 {
			t.Errorf("one attempt was counted %d times", got)
		}
	}
	f.wantStatus("pending", ids[2])
}

// TestOverlappingMarksDoNotDeadlock marks the same rows over two connections. One prefers to read
// them by an index, the other one in the order of the table, which is the opposite one. Both wait
// for a row in the middle that a third transaction has locked. If each of them had locked half of
// the rows that the other one needs, PostgreSQL would abort one of them (40P01).
func TestOverlappingMarksDoNotDeadlock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []uuid.UUID
	for i := range 3 {
		id := uuid.New()
		id[0] = byte(3 - i)
		f.exec(oneSQL, id, 1, uuid.NewString())
		ids = append(ids, id)
	}
	var ends []func()
	events := f.events(ids...)
	f.withRowLocked(ids[1], func() {
		for i, cost := range []string{"0.1", "1000000"} {
			store := f.with(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["random_page_cost"] = cost }).store
			ends = append(ends, f.startUntilBlocked(i+1, func() error {
				_, err := store.Settle(t.Context(), Settlement{Published: events})
				return err
			}))
		}
	})
	for _, end := range ends {
		end()
	}
}

// TestAMarkWaitsForTheDiskIfTheRelaySaysSo, also if the role's default is that it does not.
func TestAMarkWaitsForTheDiskIfTheRelaySaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`CREATE TABLE seen (setting text);
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
		CREATE TRIGGER see AFTER DELETE ON outbox_queue FOR EACH STATEMENT EXECUTE FUNCTION see()`)
	for setting, durable := range map[string]string{"off": "on", "on": "on", "local": "local", "remote_apply": "remote_apply"} {
		f := f.with(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = setting })
		f.settle(Settlement{Durable: true, Published: f.events(f.appendMany(1)...)})
		f.settle(Settlement{Published: f.events(f.appendMany(1)...)})
		if got := read[string](f, "SELECT string_agg(setting, ' ' ORDER BY setting = 'off') FROM seen"); got[0] != durable+" off" {
			t.Errorf("default %s: durable and not: %s", setting, got[0])
		}
		f.exec("TRUNCATE seen")
	}
}

// TestP4AnEventFailsByAgeAndNumber: it was refused ten times, and first longer ago than GiveUp, by
// the clock of the database. Otherwise it waits for its delay. A return begins that time again: two
// refusals with a day of returns between them are no day of refusals.
func TestP4AnEventFailsByAgeAndNumber(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before int
		since  string
		counts bool
		fails  bool
		tried  bool
		code   string
	}{
		"old enough and often enough": {9, "now() - interval '61 minutes'", true, true, false, "refused"},
		"not old enough":              {50, "now() - interval '59 minutes'", true, false, false, "refused"},
		"not often enough":            {8, "now() - interval '1 year'", true, false, false, "refused"},
		"the first time":              {0, "NULL", true, false, false, "refused"},
		"not counted":                 {50, "now() - interval '1 year'", false, false, false, "refused"},
		"no answer":                   {50, "now() - interval '1 year'", false, false, true, CodeNoAnswer},
		"no queue is bound":           {50, "now() - interval '1 year'", false, false, true, CodeUnroutable},
		"and never was":               {0, "NULL", false, false, true, CodeUnroutable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := f.appendMany(1)
			f.exec("UPDATE outbox_queue SET retry_count = $1, refused_since = "+test.since, test.before)
			done := f.settle(Settlement{
				Token: f.claim(1).Token, End: true, GiveUp: time.Hour,
				Failures: []Failure{{ID: ids[0], Counts: test.counts, Tried: test.tried, Delay: time.Hour, Code: test.code}},
			})
			if at, failed := done.Failed[ids[0]]; failed != test.fails || failed == at.IsZero() {
				t.Errorf("failed: %t at %v", failed, at)
			}
			want := test.before
			if test.counts || test.tried {
				want++
			}
			switch {
			case test.counts:
				f.wantNone("SELECT count(*) FROM outbox_queue WHERE refused_since IS NULL OR refused_since > now()")
			case test.code == CodeUnroutable:
				f.wantNone("SELECT count(*) FROM outbox_queue WHERE refused_since IS NOT NULL")
			default:
				f.wantNone("SELECT count(*) FROM outbox_queue WHERE refused_since IS NULL OR refused_since > now() - interval '1 hour'")
			}
			if got := f.row(ids[0]); got.RetryCount != want || (got.Status == "failed") != test.fails || got.FailureCode != test.code {
				t.Errorf("%+v", got)
			}
			f.wantDue(map[bool]float64{true: parked, false: 3600}[test.fails], ids[0])
		})
	}
}

// TestP7RenewRevivesNoClaim that has ended: an operator may have discarded its events. It keeps
// others.
func TestP7RenewRevivesNoClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.appendMany(2)
	kept, err := f.store.Claim(t.Context(), "kept", 1, time.Hour)
	must(t, err)
	lost, err := f.store.Claim(t.Context(), "lost", 1, time.Hour)
	must(t, err)
	_, err = f.store.Renew(t.Context(), []uuid.UUID{kept.Token}, 3*time.Hour)
	must(t, err)
	f.exec("UPDATE outbox_claims SET until = until - interval '2 hours'") // as if that time had passed
	held, err := f.store.Renew(t.Context(), []uuid.UUID{kept.Token, lost.Token}, 3*time.Hour)
	if err != nil || !slices.Equal(held, []uuid.UUID{kept.Token}) {
		t.Errorf("renewed %v: %v", held, err)
	}
	f.wantClaimed(ids[1])
	if f.int("SELECT count(*) FROM outbox_claims") != 2 || f.reschedule(kept, Failure{ID: ids[0]}) != 1 {
		t.Error("a renewed claim was lost, or one that had ended is back")
	}
}
