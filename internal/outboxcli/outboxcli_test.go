package outboxcli_test

import (
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
)

var commandNames = []string{"list", "show", "replay", "discard", "republish", "topics", "pause", "resume"}

func TestHelpShowsEachCommandWithAnExample(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"help"}, {"-h"}, {"--help"}} {
		var out strings.Builder
		if _, err := orders.Parse(args, &out); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%q gives the error %v", args, err)
		}
		for _, name := range commandNames {
			if !strings.Contains(out.String(), "\n  "+name+" ") {
				t.Errorf("%q does not show %s:\n%s", args, name, &out)
			}
		}
	}
	for _, name := range commandNames {
		for _, args := range [][]string{{name, "-h"}, {name, "--help"}, {name, uuid.NewString(), "-h"}} {
			var out strings.Builder
			_, err := orders.Parse(args, &out)
			if !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "\n  order-service outbox "+name+" ") || !strings.Contains(out.String(), "  --json") {
				t.Errorf("%q gives the error %v and this help:\n%s", args, err, &out)
			}
		}
	}
}

// TestAWrongCommandLineSaysWhatToDo checks the arguments before a command opens anything.
func TestAWrongCommandLineSaysWhatToDo(t *testing.T) {
	t.Parallel()
	id := uuid.NewString()
	for line, hint := range map[string]string{
		"lst":                                "outbox help",
		"list " + id:                         "flags only",
		"list --status sent":                 "in_progress, published",
		"list --limit 0":                     "from 1 to",
		"list --limit many":                  "list -h",
		"list --older-than 1":                "90s, 30m or 24h",
		"list --older-than -1h":              "90s, 30m or 24h",
		"list --topic=":                      "it is empty",
		"list --colour":                      "list -h",
		"show":                               "one event by its id",
		"show " + id + " " + id:              "one event by its id",
		"show order.created":                 "outbox list",
		"replay":                             "--topic, --older-than, or --all",
		"replay --dry-run":                   "--topic, --older-than, or --all",
		"replay " + id + " --all":            "do not go together",
		"replay --topic a.b " + id:           "do not go together",
		"discard --older-than 1h " + id:      "do not go together",
		"discard --all --older-than 1h":      "leave out",
		"discard":                            "--topic, --older-than, or --all",
		"discard 12":                         "outbox list",
		"republish":                          "--since 24h",
		"republish --until 1h":               "--since 24h",
		"republish --since yesterday":        "2026-01-31T08:00:00Z",
		"republish --since 1h " + id:         "flags only",
		"republish --since 1h --after first": "outbox list",
		"topics order.created":               "flags only",
		"topics --limit 0":                   "from 1 to",
		"pause --reason why":                 "one topic",
		"pause a b --reason why":             "one topic",
		"pause order.created":                "give --reason",
		"pause order.created --reason=":      "it is empty",
		"resume":                             "one topic",
		"resume a b":                         "one topic",
	} {
		_, err := orders.Parse(strings.Fields(line), &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: error %v, want a hint at %q", line, err, hint)
		}
	}
}

func TestListShowsWhatFailed(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	if out := b.must("list"); out != "There are no failed events like that.\n" {
		t.Errorf("of an empty outbox it prints %q", out)
	}
	ids := b.append("order.created", "order.cancelled")
	b.fail(3, ids[0])
	b.exec("UPDATE outbox_queue SET failure_reason = 'red \x1b[31m, and a long story: ' || repeat('x', 100) WHERE id = $1", ids[0])

	lines := strings.Split(strings.TrimSpace(b.must("list")), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for _, want := range []string{ids[0].String(), "order.created", "order/", "failed", "20", "refused", "3h0m", "red  [31m", "xxx…"} {
		if !strings.Contains(lines[1], want) {
			t.Errorf("no %q in %q", want, lines[1])
		}
	}
	if strings.Index(lines[0], "STATUS") != strings.Index(lines[1], "failed") {
		t.Errorf("not aligned:\n%s", strings.Join(lines, "\n"))
	}
	if got := b.ids(b.must("list", "--json")); !slices.Equal(got, ids[:1]) {
		t.Errorf("as JSON %v, want %v", got, ids[:1])
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	old, young, other := b.append("order.created"), b.append("order.created"), b.append("order.cancelled", "order.created")
	b.fail(2, old...)
	b.fail(0, young...)
	b.fail(2, other[0])
	for line, want := range map[string][]uuid.UUID{
		"list --json":                          {old[0], young[0], other[0]},
		"list --json --older-than 1h":          {old[0], other[0]},
		"list --json --topic order.created":    {old[0], young[0]},
		"list --json --older-than=3h":          nil,
		"list --json --status pending":         other[1:],
		"list --json --status published":       nil,
		"list --json --limit 2":                {old[0], young[0]},
		"list --topic order.cancelled --json ": other[:1],
	} {
		if got := b.ids(b.must(strings.Fields(line)...)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}

func TestListSaysWhenThereAreMore(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := b.appendMany(601) // more than a page
	b.fail(0, ids...)
	for line, want := range map[string]int{"list --json": 100, "list --json --limit 600": 600, "list --json --limit 601": 601} {
		out, progress, err := b.run(strings.Fields(line)...)
		if got := b.ids(out); err != nil || !slices.Equal(got, ids[:want]) {
			t.Errorf("%s: %d events, error %v, want the first %d", line, len(got), err, want)
		}
		if told := strings.Contains(progress, "there are more"); told != (want < len(ids)) {
			t.Errorf("%s says %q", line, progress)
		}
	}
}

func TestShowPrintsEveryFieldOfAnEvent(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := b.append("order.created", "order.confirmed", "order.cancelled")
	b.fail(1, ids[0])
	for i, wants := range [][]string{
		{ids[0].String(), "version 1", "failed", "a queue refused it", "holds back", "2 events", `"quantity": 2`},
		{ids[1].String(), "version 2", "pending", "due at", "waits for   " + ids[0].String() + ", version 1, failed", "1 event of its order"},
	} {
		out := b.must("show", ids[i].String())
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
	if out := b.must("show", ids[0].String()); strings.Contains(out, "\n ") {
		t.Errorf("a line without a name:\n%s", out)
	}
	var shown struct {
		Payload   map[string]int `json:"payload"`
		Waiting   int            `json:"waiting"`
		BlockedBy []struct {
			ID uuid.UUID `json:"id"`
		} `json:"blocked_by"`
	}
	out := b.must("show", ids[1].String(), "--json")
	err := json.Unmarshal([]byte(out), &shown)
	if err != nil || strings.Count(out, "\n") != 1 || shown.Payload["quantity"] != 2 ||
		shown.Waiting != 1 || len(shown.BlockedBy) != 1 || shown.BlockedBy[0].ID != ids[0] {
		t.Errorf("as JSON %s, error %v", out, err)
	}
	if _, _, err := b.run("show", uuid.NewString()); err == nil || !strings.Contains(err.Error(), "outbox list") {
		t.Errorf("an unknown event gives the error %v", err)
	}
}
