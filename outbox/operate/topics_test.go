package operate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/operate"
)

func (f fixture) topics() []operate.PausedTopic {
	f.Helper()
	topics, err := f.operator.Topics(f.Context(), "", 10)
	must(f, err)
	return topics
}

// TestTopicsHasThoseThatArePaused. The pause of an operator takes the place of the relay's.
func TestTopicsHasThoseThatArePaused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.append("1", 1, 2)
	f.appendAlone()
	// A relay pauses a topic that refuses its events.
	f.settle(store.Settlement{Paused: map[string]string{"order.created": "no queue is bound"}, FirstPause: time.Hour})
	f.due() // halts the first event
	for _, operator := range []string{"", "ann"} {
		reason := "no queue is bound"
		if operator != "" {
			reason = "the broker moves"
			must(t, f.operator.Pause(t.Context(), ann(), "order.created", reason))
		}
		topics := f.topics()
		if len(topics) != 1 || topics[0].Topic != "order.created" || topics[0].Waiting != 1 || topics[0].More || topics[0].Since.IsZero() ||
			topics[0].Operator != operator || topics[0].Reason != reason || (topics[0].Until == nil) != (operator != "") {
			t.Fatalf("paused by %q: %+v", operator, topics)
		}
	}
	must(t, f.operator.Resume(t.Context(), ann(), "order.created"))
	if left := f.topics(); len(left) != 0 {
		t.Errorf("still paused: %+v", left)
	}
}

func TestAPauseIsRecordedAndATopicThatIsNotPausedIsAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	pause := operate.NewDecision("ann", operate.CLI, "--reason why")
	must(t, f.operator.Pause(t.Context(), pause, "order.created", strings.Repeat("ü", 1000)+"\x00"))
	resume := operate.NewDecision("ben", operate.Page, operate.ByIDs)
	seen, err := f.operator.PausedTopic(t.Context(), "order.created")
	must(t, err)
	must(t, f.operator.Pause(t.Context(), ann(), "order.created", "another reason"))
	if err := f.operator.ResumeSeen(t.Context(), resume, seen); !errors.Is(err, operate.ErrNotPaused) {
		t.Errorf("a pause that nobody has seen is ended: error %v", err)
	}
	must(t, f.operator.Resume(t.Context(), resume, "order.created"))
	for action, by := range map[operate.Action]operate.By{operate.Pause: pause, operate.Resume: resume} {
		if d, err := f.log.Get(t.Context(), by.Decision); err != nil || d.By != by || d.Action != action || d.Done != 1 {
			t.Errorf("%s is recorded as %+v, error %v", action, d, err)
		}
	}
	before := f.count("operator_decisions")
	for _, topic := range []string{"order.created", "order.lost", operate.EveryTopic} {
		err := f.operator.Resume(t.Context(), ann(), topic)
		if !errors.Is(err, operate.ErrNotPaused) || !strings.Contains(err.Error(), topic) {
			t.Errorf("resume of %s: error %v", topic, err)
		}
	}
	for _, topic := range []string{"", strings.Repeat("x", 512)} {
		if err := f.operator.Pause(t.Context(), ann(), topic, "why"); err == nil {
			t.Errorf("a topic of %d bytes is paused", len(topic))
		}
	}
	if err := f.operator.Pause(t.Context(), operate.By{}, "order.created", "why"); err == nil || !strings.Contains(err.Error(), "By.Operator") || len(f.topics()) != 0 {
		t.Errorf("without a name: error %v, paused %+v", err, f.topics())
	}
	if f.count("operator_decisions") != before {
		t.Error("an error is recorded")
	}
}

// TestP7WhatIsClaimedIsNotDiscarded: a relay may still send it, and the next event of the order
// would be sent beside it. A claim that is being made may have read the pauses too early.
func TestP7WhatIsClaimedIsNotDiscarded(t *testing.T) {
	t.Parallel()
	for topic, reason := range map[string]string{
		"order.created":    "is claimed by x: try again when the claim has ended", // halted and claimed: a probe, or one without an answer
		operate.EveryTopic: "is in_progress, not failed",
	} {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			id := f.append("1", 1)[0]
			must(t, f.operator.Pause(t.Context(), ann(), topic, "why"))
			f.due()
			claim, err := f.pool.Begin(t.Context())
			must(t, err)
			for _, step := range []string{
				store.ClaimLockSQL,
				"INSERT INTO outbox_claims (token, worker, until, events) SELECT gen_random_uuid(), 'x', now() + interval '1h', array_agg(id) FROM outbox_queue",
			} {
				_, err := claim.Exec(t.Context(), step)
				must(t, err)
			}
			want := []operate.Refusal{{id, reason, false}}
			ended := make(chan error)
			go func() {
				r, err := f.operator.Discard(t.Context(), ann(), []uuid.UUID{id})
				if err == nil && !slices.Equal(r.Refused, want) {
					err = fmt.Errorf("discarded %+v", r)
				}
				ended <- err
			}()
			dbtest.Await(t, "the discard waits for the claim", func() bool {
				return f.count("pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == 1
			})
			must(t, claim.Commit(t.Context()))
			must(t, <-ended)
			if r, err := f.operator.DryRun(t.Context(), operate.Discard, []uuid.UUID{id}); err != nil || !slices.Equal(r.Refused, want) || f.count("outbox_queue") != 1 {
				t.Errorf("a dry run refuses %+v, error %v, %d events", r.Refused, err, f.count("outbox_queue"))
			}
		})
	}
}

// TestP4ADiscardStopsNoClaim, whatever it waits for: a row that somebody has locked, or the
// standby.
func TestP4ADiscardStopsNoClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	halted, other := f.append("1", 1)[0], f.appendAlone()
	must(t, f.operator.Pause(t.Context(), ann(), "order.created", "why"))
	f.due()
	locked, err := f.pool.Begin(t.Context())
	must(t, err)
	_, err = locked.Exec(t.Context(), "SELECT FROM outbox_queue WHERE id = $1 FOR UPDATE", halted)
	must(t, err)
	ended := make(chan error)
	go func() {
		_, err := f.operator.Discard(t.Context(), ann(), []uuid.UUID{halted})
		ended <- err
	}()
	dbtest.Await(t, "the discard waits for the row", func() bool {
		return f.count("pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	})
	if f.count("(SELECT FROM outbox_claims FOR UPDATE SKIP LOCKED) c") != 0 {
		t.Error("its claim is not locked, so it may end before the discard does")
	}
	if got := f.due(); !slices.Equal(got, []uuid.UUID{other}) {
		t.Errorf("claimed %v, want %v", got, other)
	}
	must(t, locked.Commit(t.Context()))
	must(t, <-ended)
	const discarded = "outbox_done WHERE status = 'discarded'"
	if f.count("outbox_claims") != 0 || f.count(discarded) != 1 {
		t.Errorf("%d claims are left, and %d events are discarded", f.count("outbox_claims"), f.count(discarded))
	}
}

// TestP7WhatIsBeingRecordedIsNotDiscarded: the lease has ended, but its holder has locked the
// claim, so nobody deletes it, and a renewal that waits for the lock could revive it.
func TestP7WhatIsBeingRecordedIsNotDiscarded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.append("1", 1)[0]
	must(t, f.operator.Pause(t.Context(), ann(), operate.EveryTopic, "why"))
	f.claim(id)
	f.exec("UPDATE outbox_claims SET until = now()")
	holder, err := f.pool.Begin(t.Context())
	must(t, err)
	_, err = holder.Exec(t.Context(), "SELECT FROM outbox_claims FOR UPDATE")
	must(t, err)
	for _, want := range []int{1, 0} {
		r, err := f.operator.Discard(t.Context(), ann(), []uuid.UUID{id})
		if err != nil || len(r.Refused) != want || want == 1 && r.Refused[0].Reason != "has changed meanwhile: try again" {
			t.Errorf("%+v, error %v", r, err)
		}
		must(t, holder.Rollback(t.Context()))
		holder, err = f.pool.Begin(t.Context())
		must(t, err)
	}
	must(t, holder.Rollback(t.Context()))
}

func TestWithoutTablesTheErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	f := fixtureOf(t, dbtest.Pool(t, dbtest.URL(t)))
	_, showErr := f.operator.Show(t.Context(), uuid.New())
	_, topicsErr := f.operator.Topics(t.Context(), "", 1)
	_, backlogErr := f.operator.Backlog(t.Context(), 1)
	_, logErr := f.log.Get(t.Context(), uuid.New())
	for _, err := range []error{showErr, topicsErr, backlogErr, logErr, f.operator.Pause(t.Context(), ann(), "a", "why")} {
		if !errors.Is(err, operate.ErrNoSchema) || !strings.Contains(err.Error(), "run Migrate") {
			t.Errorf("error %v", err)
		}
	}
}
