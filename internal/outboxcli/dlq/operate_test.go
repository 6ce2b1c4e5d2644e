package dlq_test

import (
	"errors"
	"flag"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/outboxcli/dlq"
)

func TestHelpShowsEachCommandWithAnExample(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"list", "show", "replay", "discard"} {
		var all, one strings.Builder
		if _, err := dlq.Parse("shop", nil, &all); !errors.Is(err, flag.ErrHelp) || !strings.Contains(all.String(), "\n  "+name+" ") {
			t.Errorf("error %v, and %s is not in\n%s", err, name, &all)
		}
		_, err := dlq.Parse("shop", []string{name, "-h"}, &one)
		for _, want := range []string{"\n  shop dlq " + name + " ", "\n  --json", "another operator's command"} {
			if !errors.Is(err, flag.ErrHelp) || !strings.Contains(one.String(), want) {
				t.Errorf("error %v, and there is no %q in\n%s", err, want, &one)
			}
		}
	}
}

// TestAMistakeSaysWhatToDo before anything is opened.
func TestAMistakeSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for line, hint := range map[string]string{
		"lst":                         "dlq help",
		"list A":                      "flags only",
		"list --limit 0":              "from 1 to",
		"list --older-than 1":         "90s, 30m or 24h",
		"list --reason=":              "it is empty",
		"list --colour":               "list -h",
		"show":                        "one message by its id",
		"show A B":                    "one message by its id",
		"replay":                      "--reason, --routing-key, --older-than, or --all",
		"replay --dry-run":            "changes nothing",
		"replay A --all":              "do not go together",
		"discard --reason x A":        "do not go together",
		"discard --all --reason x":    "leave out",
		"discard":                     "say which messages to discard",
		"discard --force --all":       "discard -h",
		"replay --routing-key= --all": "it is empty",
	} {
		_, err := dlq.Parse("shop", strings.Fields(line), &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: error %v, want a hint at %q", line, err, hint)
		}
	}
	if _, err := dlq.Parse("shop", []string{"discard", ""}, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty id gives the error %v", err)
	}
}

func TestAMissingQueueSaysWhatToDo(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.Service += ".missing"
	b.Letters = b.Service + ".dlq"
	for _, line := range []string{"list", "show A", "replay --all", "discard A"} {
		_, _, err := b.run(strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), b.Letters) || !strings.Contains(err.Error(), "start the service "+b.Service) {
			t.Errorf("%s: error %v, want one that says what to do", line, err)
		}
	}
}

func TestIDsThatNoMessageHasAreNamedAndTheOthersDone(t *testing.T) {
	t.Parallel()
	for command, past := range map[string]string{"replay": "replayed", "discard": "discarded"} {
		b := newFixture(t)
		id := b.Add("malformed", 0)
		out, _, err := b.run(command, "nobody", id, id)
		if out != "1 message "+past+".\n" || err == nil || !strings.Contains(err.Error(), "1 message could not be "+past) ||
			!strings.Contains(err.Error(), "nobody is not in the queue") {
			t.Errorf("it prints %q, error %v", out, err)
		}
		if left := b.Drain(b.Letters, 0); len(left) != 0 {
			t.Errorf("%s leaves %v", command, idsOf(left))
		}
	}
	b := newFixture(t)
	if _, _, err := b.run("show", "nobody"); err == nil || !strings.Contains(err.Error(), "dlq list") {
		t.Errorf("show gives the error %v", err)
	}
}
