package outboxcli_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
)

// decisions returns what operators have decided, the newest first.
func (b fixture) decisions() []operate.Decision {
	b.Helper()
	found, err := operate.NewLog(b.db.Pool()).List(b.Context(), uuid.Nil, 100)
	if err != nil {
		b.Fatal(err)
	}
	return found
}

func TestEachCommandRecordsWhoChoseWhat(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--all":                                  "--all",
		"--older-than 1h":                        "--older-than 1h0m0s",
		"--topic order.created":                  "--topic order.created",
		"--older-than 90s --topic order.created": "--topic order.created --older-than 1m30s",
		"":                                       "ids",
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
				b.must("replay", "--topic", "order.nothing")
				recorded := b.decisions()
				if len(recorded) != 1 || recorded[0].Filter != want || string(recorded[0].Action) != command ||
					recorded[0].Operator != "somebody" || recorded[0].Via != operate.CLI || recorded[0].Done != 1 {
					t.Errorf("recorded %+v, want the filter %q", recorded, want)
				}
			})
		}
	}
}

func TestALargeDecisionIsOneWithABatchForEachTransaction(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.fail(0, b.appendMany(501)...)
	b.must("replay", "--all")
	recorded := b.decisions()
	if len(recorded) != 1 || recorded[0].Batches != 2 || recorded[0].Done != 501 || recorded[0].FinishedAt == nil {
		t.Fatalf("recorded %+v", recorded)
	}
}

func TestRepublishRecordsEachBatchBeforeItIsSent(t *testing.T) {
	t.Parallel()
	b := newLostDisk(t)
	b.consume("#")
	ids := b.append("order.created", "order.cancelled")
	b.publish(0, ids...)
	connect := b.destination
	b.destination = func(ctx context.Context, use func(context.Context, publish.Session) error) error {
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
	if len(recorded) != 1 || recorded[0].Action != operate.Republish || recorded[0].Done != 2 || recorded[0].FinishedAt == nil ||
		!strings.HasPrefix(recorded[0].Filter, "--since 2") || recorded[0].Operator != "somebody" {
		t.Fatalf("recorded %+v", recorded)
	}
}
