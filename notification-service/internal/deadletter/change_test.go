package deadletter_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/notification-service/internal/deadletter/deadlettertest"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// TestEachBatchIsRecordedBeforeItsFirstMessageIsTouched, and finished after its last.
func TestEachBatchIsRecordedBeforeItsFirstMessageIsTouched(t *testing.T) {
	t.Parallel()
	for _, action := range []operate.Action{operate.Replay, operate.Discard} {
		f := newFixture(t)
		ids := f.AddMany(250)
		recorded, touched := map[string]bool{}, 0
		f.recorder.Begun = func(items []string) error {
			if touched != len(recorded) {
				t.Errorf("%d messages are changed, and %d recorded", touched, len(recorded))
			}
			for _, id := range items {
				recorded[id] = true
			}
			return nil
		}
		check := func(id string) {
			if !recorded[id] {
				t.Errorf("%s: %s is changed, and not recorded", action, id)
			}
		}
		f.Hooks.Published = func(m rabbitmq.Message, r publish.Result) publish.Result {
			check(m.ID)
			return r
		}
		f.Hooks.Removing = func(m rabbitmq.BrowsedMessage) {
			touched++
			check(m.ID)
		}
		result, err := f.change(action).Run(t.Context(), f.Queue())
		if err != nil || len(result.Changed) != 250 || len(f.recorder.Rows) != 3 {
			t.Fatalf("%s: %d changed in %d batches, error %v", action, len(result.Changed), len(f.recorder.Rows), err)
		}
		var items []string
		for i, row := range f.recorder.Rows {
			items = append(items, row.Items...)
			if row.Done != []int{100, 100, 50}[i] || row.Action != action || row.Operator != "somebody" {
				t.Errorf("%s: batch %d is recorded as %+v", action, i, row)
			}
		}
		if !slices.Equal(items, ids) {
			t.Errorf("%s: recorded are %d other items", action, len(items))
		}
	}
}

func TestLargeMessagesMakeSmallBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 10 {
		f.Add("malformed", 0, func(p *amqp.Publishing) { p.Body = make([]byte, 1<<20) })
	}
	if _, err := f.change(operate.Discard).Run(t.Context(), f.Queue()); err != nil || len(f.recorder.Rows) != 2 || f.recorder.Rows[0].Done != 8 {
		t.Errorf("%d batches, error %v", len(f.recorder.Rows), err)
	}
}

func TestWhatCannotBeRecordedIsNotChanged(t *testing.T) {
	t.Parallel()
	away := errors.New("the database is away")
	for _, action := range []operate.Action{operate.Replay, operate.Discard} {
		f := newFixture(t)
		ids := f.AddMany(150)
		f.recorder.Begun = func(items []string) error {
			if items[0] == ids[0] {
				return nil
			}
			return away
		}
		result, err := f.change(action).Run(t.Context(), f.Queue())
		if !errors.Is(err, away) || !strings.Contains(err.Error(), "none of these messages was changed") || len(result.Changed) != 100 {
			t.Errorf("%s: %d changed, error %v", action, len(result.Changed), err)
		}
		sent := ids[:100]
		if action == operate.Discard {
			sent = nil
		}
		f.wantLeftAndSent(ids[100:], sent)
	}
}

// TestOnlyChosenKeysAreChanged: what comes after the choice stays, also if it is equal.
func TestOnlyChosenKeysAreChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	twice := func(p *amqp.Publishing) { p.MessageId, p.Headers["failed-at"] = "twice", "2026-01-31T08:00:00Z" }
	for range 2 {
		f.Add("malformed", 0, twice)
	}
	chosen, other := f.Add("malformed", 0), f.Add("malformed", 0)
	keys := map[string]int{"no such key": 1, "none of it": 0}
	for _, l := range f.read() {
		if l.ID != other {
			keys[l.Key]++
		}
	}
	f.Add("malformed", 0, twice)
	later := f.Add("malformed", 0)
	c := f.change(operate.Replay)
	c.Keys = keys
	result, err := c.Run(t.Context(), f.Queue())
	if err != nil || len(result.Changed) != 3 || keys["no such key"] != 1 {
		t.Errorf("%+v, error %v", result, err)
	}
	if left := deadletter.Remaining(keys, result); len(left) != 1 || left["no such key"] != 1 {
		t.Errorf("remaining are %v", left)
	}
	f.wantLeftAndSent([]string{other, "twice", later}, []string{"twice", "twice", chosen})
}

// TestTheReadingStopsAtTheLastChosenKey, and at the limit.
func TestTheReadingStopsAtTheLastChosenKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddMany(5)
	taken := 0
	f.Hooks.Taken = func(rabbitmq.BrowsedMessage) { taken++ }
	letters := f.read()
	c := f.change(operate.Discard)
	c.DryRun, c.Keys = true, map[string]int{letters[1].Key: 1}
	taken = 0
	if result, err := c.Run(t.Context(), f.Queue()); err != nil || len(result.Changed) != 1 || taken != 2 {
		t.Errorf("%+v after %d, error %v", result, taken, err)
	}
	c.Keys, c.Limit, taken = nil, 3, 0
	if result, err := c.Run(t.Context(), f.Queue()); err != nil || len(result.Changed) != 3 || taken != 3 {
		t.Errorf("%+v after %d, error %v", result, taken, err)
	}
}

// TestARecordEndsOnlyIfItIsKnownWhatWasChanged.
func TestARecordEndsOnlyIfItIsKnownWhatWasChanged(t *testing.T) {
	t.Parallel()
	for outcome, done := range map[publish.Outcome]int{publish.Returned: 1, publish.Refused: 1, publish.Unknown: -1, publish.Invalid: 2} {
		f := newFixture(t)
		ids := f.AddMany(3)
		f.Hooks.Published = func(m rabbitmq.Message, r publish.Result) publish.Result {
			if m.ID == ids[1] {
				return publish.Result{Outcome: outcome, Err: errors.New("because")}
			}
			return r
		}
		result, err := f.change(operate.Replay).Run(t.Context(), f.Queue())
		if (err == nil) != (outcome == publish.Invalid) || len(result.Changed) != max(done, 1) {
			t.Errorf("%d changed, error %v", len(result.Changed), err)
		}
		if row := f.recorder.Rows[0]; !slices.Equal(row.Items, ids) || row.Done != done {
			t.Errorf("outcome %d: recorded is %+v, want %d done", outcome, row, done)
		}
	}
}

func TestACancelledChangeEndsItsRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.AddMany(3)
	ctx, cancel := context.WithCancel(t.Context())
	f.Hooks.At("removed", ids[1], cancel)
	if _, err := f.change(operate.Discard).Run(ctx, f.Queue()); !errors.Is(err, context.Canceled) || f.recorder.Rows[0].Done != 2 {
		t.Errorf("recorded is %+v, error %v", f.recorder.Rows, err)
	}
	f.wantLeftAndSent(ids[2:], nil)
	if _, err := f.change(operate.Discard).Run(ended(t), f.Queue()); err == nil || len(f.recorder.Rows) != 1 {
		t.Errorf("after the end: %+v, error %v", f.recorder.Rows, err)
	}
}

// TestTwoOperatorsChangeEachMessageOnce: what one holds, the other does not see.
func TestTwoOperatorsChangeEachMessageOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.AddMany(300)
	results := make(chan error, 2)
	recorders := []*deadlettertest.Recorder{{}, {}}
	for _, recorder := range recorders {
		go func() {
			c := f.change(operate.Replay)
			c.Recorder = recorder
			_, err := c.Run(t.Context(), f.Queue())
			results <- err
		}()
	}
	f.Check(errors.Join(<-results, <-results))
	var recorded []string
	for _, recorder := range recorders {
		for _, row := range recorder.Rows {
			recorded = append(recorded, row.Items...)
		}
	}
	if !deadlettertest.SameSet(recorded, ids) {
		t.Errorf("%d items are recorded, want each of %d once", len(recorded), len(ids))
	}
	f.wantLeftAndSent(nil, ids)
}
