package dlq_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/outboxcli/dlq"
	"example.com/transactional-outbox/outbox/operate"
)

func TestAChangeIsRecordedAsItWasTyped(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"replay --all":                            "--all",
		"replay --reason malformed":               "--reason malformed",
		"discard ID":                              "ids",
		"discard --routing-key order.created":     "--routing-key order.created",
		"replay --older-than 1s --reason x --all": "", // a mistake
		"replay --all --dry-run":                  "",
		"replay --reason none":                    "",
	} {
		b := newFixture(t)
		id := b.Add("malformed", 0)
		action, _, _ := strings.Cut(line, " ")
		_, _, _ = b.run(strings.Fields(strings.ReplaceAll(line, "ID", id))...)
		if want == "" {
			if len(b.recorder.Rows) != 0 {
				t.Errorf("%s is recorded as %+v", line, b.recorder.Rows)
			}
			continue
		}
		if len(b.recorder.Rows) != 1 {
			t.Fatalf("%s has %d records", line, len(b.recorder.Rows))
		}
		row := b.recorder.Rows[0]
		if row.Filter != want || row.Operator != "somebody" || row.Via != operate.CLI || string(row.Action) != action ||
			!slices.Equal(row.Items, []string{id}) || row.Done != 1 {
			t.Errorf("%s is recorded as %+v", line, row)
		}
	}
}

// TestWithoutTheDatabaseNothingIsChanged, and list, show and a dry run need none.
func TestWithoutTheDatabaseNothingIsChanged(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	id := b.Add("malformed", 0)
	away := errors.New("the database is away")
	b.database = func(context.Context, func(dlq.Recorder) error) error { return away }
	for _, line := range []string{"replay --all", "discard " + id} {
		if _, _, err := b.run(strings.Fields(line)...); !errors.Is(err, away) {
			t.Errorf("%s: error %v", line, err)
		}
	}
	for _, line := range []string{"list", "show " + id, "replay --all --dry-run", "discard --all --dry-run"} {
		b.must(strings.Fields(line)...)
	}
	if left := idsOf(b.Drain(b.Letters, 1)); !slices.Equal(left, []string{id}) {
		t.Errorf("left are %v", left)
	}
}
