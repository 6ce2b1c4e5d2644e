package cli_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/publish"
)

// decisions returns what operators have decided, the newest first.
func (b fixture) decisions() []audit.Decision {
	b.Helper()
	found, err := audit.NewLog(b.db).List(b.Context(), uuid.Nil, 100)
	if err != nil {
		b.Fatal(err)
	}
	return found
}

func TestEachCommandRecordsWhoChoseWhat(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--all":                     "--all",
		"--older-than 1h":           "--older-than 1h0m0s",
		"--event-key order.created": "--event-key order.created",
		"--older-than 90s --event-key order.created": "--event-key order.created --older-than 1m30s",
		"": "ids",
	} {
		for command := range decisions {
			t.Run(command+" "+line, func(t *testing.T) {
				t.Parallel()
				b := newFixture(t)
				ids := b.append("order.created")
				b.fail(2, ids...)
				args := append([]string{command}, strings.Fields(line)...)
				if line == "" {
					args = append(args, ids[0].String())
				}
				b.must(append(args, "--dry-run")...)
				if recorded := b.decisions(); len(recorded) != 0 {
					t.Errorf("a dry run records %+v", recorded)
				}
				b.must(args...)
				b.must("replay", "--event-key", "order.nothing")
				recorded := b.decisions()
				if len(recorded) != 1 || recorded[0].Filter != want || string(recorded[0].Action) != command ||
					recorded[0].Operator != "somebody" || recorded[0].Via != audit.CLI || recorded[0].Done != 1 {
					t.Errorf("recorded %+v, want the filter %q", recorded, want)
				}
			})
		}
	}
}

func TestALargeDecisionIsOneWithABatchForEachTransaction(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := b.appendMany(1001)
	b.fail(0, ids...)
	b.must("replay", "--all")
	recorded := b.decisions()
	if len(recorded) != 1 || recorded[0].Batches != 3 || recorded[0].Done != 1001 || recorded[0].FinishedAt == nil {
		t.Fatalf("recorded %+v", recorded)
	}
	batches, err := audit.NewLog(b.db).Batches(t.Context(), recorded[0].Decision, uuid.Nil, 10)
	if err != nil || len(batches) != 3 {
		t.Fatalf("%d batches, error %v", len(batches), err)
	}
	all := slices.Concat(batches[0].Items, batches[1].Items, batches[2].Items)
	if slices.Sort(all); !slices.Equal(all, audit.IDs(ids)) {
		t.Errorf("the batches have %d items", len(all))
	}
}

func TestRepublishRecordsEachBatchBeforeItIsSent(t *testing.T) {
	t.Parallel()
	b := newLostDisk(t)
	b.consume("#")
	ids := b.append("order.created", "order.cancelled")
	b.publish(ids...)
	connect := b.broker
	b.broker = func(ctx context.Context, use func(context.Context, publish.Session) error) error {
		return connect(ctx, func(ctx context.Context, broker publish.Session) error {
			if recorded := b.decisions(); len(recorded) != 0 {
				t.Errorf("a record before the broker is there: %+v", recorded)
			}
			return use(ctx, broker)
		})
	}
	b.must("republish", "--since", "1h", "--dry-run")
	b.must("republish", "--since", "1h")
	recorded := b.decisions()
	if len(recorded) != 1 || recorded[0].Action != audit.Republish || recorded[0].Done != 2 || recorded[0].FinishedAt == nil ||
		!strings.HasPrefix(recorded[0].Filter, "--since 2") || recorded[0].Operator != "somebody" {
		t.Fatalf("recorded %+v", recorded)
	}
}

// TestAnUnfinishedRepublishIsRecordedAsSuch: without a queue, the broker returns the events.
func TestAnUnfinishedRepublishIsRecordedAsSuch(t *testing.T) {
	t.Parallel()
	b := newLostDisk(t)
	ids := b.append("order.created")
	b.publish(ids...)
	if _, _, err := b.run("republish", "--since", "1h"); err == nil {
		t.Fatal("no error")
	}
	recorded := b.decisions()
	if len(recorded) != 1 || recorded[0].FinishedAt != nil || recorded[0].Unfinished != 1 || recorded[0].Chosen != 1 || recorded[0].Done != 0 {
		t.Errorf("recorded %+v", recorded)
	}
}

// TestWithoutItsRecordNothingIsSentAgain makes the database refuse the record.
func TestWithoutItsRecordNothingIsSentAgain(t *testing.T) {
	t.Parallel()
	b := newLostDisk(t)
	queue := b.consume("#")
	b.publish(b.append("order.created")...)
	b.exec("ALTER TABLE operator_decisions ADD CHECK (action <> 'republish')")
	if _, _, err := b.run("republish", "--since", "1h"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if sent := b.drain(queue); len(sent) != 0 {
		t.Errorf("sent %v", messageIDs(sent))
	}
}
