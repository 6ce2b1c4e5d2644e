package dlq_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// TestEachBatchIsRecordedBeforeItsFirstMessageIsTouched, and finished after its last.
func TestEachBatchIsRecordedBeforeItsFirstMessageIsTouched(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"replay", "discard"} {
		b := newFixture(t)
		ids := b.AddMany(250)
		recorded, touched := map[string]bool{}, 0
		b.recorder.Begun = func(items []string) error {
			if touched != len(recorded) {
				t.Errorf("%d messages are changed, and %d recorded", touched, len(recorded))
			}
			for _, id := range items {
				recorded[id] = true
			}
			return nil
		}
		b.Hooks.Changing = func(l rabbitmq.DeadLetter) {
			touched++
			if !recorded[l.ID] {
				t.Errorf("%s: %s is changed, and not recorded", command, l.ID)
			}
		}
		b.must(command, "--all")
		if len(b.recorder.Rows) != 3 || touched != 250 {
			t.Fatalf("%s: %d changed in %d batches", command, touched, len(b.recorder.Rows))
		}
		var items []string
		for i, row := range b.recorder.Rows {
			items = append(items, row.Items...)
			if row.Done != []int{100, 100, 50}[i] || string(row.Action) != command || row.Operator != "somebody" {
				t.Errorf("%s: batch %d is recorded as %+v", command, i, row)
			}
		}
		if !slices.Equal(items, ids) {
			t.Errorf("%s: recorded are %d other items", command, len(items))
		}
	}
}

func TestLargeMessagesMakeSmallBatches(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	for range 10 {
		b.Add("malformed", 0, func(p *amqp.Publishing) { p.Body = make([]byte, 1<<20) })
	}
	if b.must("discard", "--all"); len(b.recorder.Rows) != 2 || b.recorder.Rows[0].Done != 8 {
		t.Errorf("%d batches", len(b.recorder.Rows))
	}
}

func TestWhatCannotBeRecordedIsNotChanged(t *testing.T) {
	t.Parallel()
	away := errors.New("the database is away")
	for _, command := range []string{"replay", "discard"} {
		b := newFixture(t)
		ids := b.AddMany(150)
		b.recorder.Begun = func(items []string) error {
			if items[0] == ids[0] {
				return nil
			}
			return away
		}
		_, _, err := b.run(command, "--all")
		if !errors.Is(err, away) || !strings.Contains(err.Error(), "none of these messages was changed") || !strings.HasPrefix(err.Error(), "100 messages ") {
			t.Errorf("%s: error %v", command, err)
		}
		sent := ids[:100]
		if command == "discard" {
			sent = nil
		}
		b.wantLeftAndSent(ids[100:], sent)
	}
}

func TestARecordEndsOnlyIfItIsKnownWhatWasChanged(t *testing.T) {
	t.Parallel()
	for outcome, done := range map[publish.Outcome]int{publish.Returned: 1, publish.Refused: 1, publish.Unknown: -1, publish.Invalid: 2} {
		b := newFixture(t)
		ids := b.AddMany(3)
		b.Hooks.Answer = func(l rabbitmq.DeadLetter) *publish.Result {
			if l.ID == ids[1] {
				return &publish.Result{Outcome: outcome, Err: errors.New("because")}
			}
			return nil
		}
		if _, _, err := b.run("replay", "--all"); err == nil || !strings.Contains(err.Error(), ids[1]) {
			t.Errorf("error %v", err)
		}
		if row := b.recorder.Rows[0]; !slices.Equal(row.Items, ids) || row.Done != done {
			t.Errorf("outcome %d: recorded is %+v, want %d done", outcome, row, done)
		}
	}
}

func TestACancelledChangeEndsItsRecord(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := b.AddMany(3)
	ctx, cancel := context.WithCancel(t.Context())
	b.Hooks.at("removed", ids[1], cancel)
	if _, _, err := b.runIn(ctx, "discard", "--all"); !errors.Is(err, context.Canceled) || b.recorder.Rows[0].Done != 2 {
		t.Errorf("recorded is %+v, error %v", b.recorder.Rows, err)
	}
	b.wantLeftAndSent(ids[2:], nil)
}

// wantLeftAndSent compares both queues with the ids of messages.
func (b fixture) wantLeftAndSent(left, sent []string) {
	b.Helper()
	gotLeft, gotSent := b.Contents(len(left), len(sent))
	if !sameSet(gotLeft, left) || !sameSet(gotSent, sent) {
		b.Errorf("left are %v, want %v; sent are %v, want %v", gotLeft, left, gotSent, sent)
	}
}
