package outboxcli

import (
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestHelpNeedsNothing: neither a database nor an environment.
func TestHelpNeedsNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(shop, Servers{}, nil, nil)
	for line, words := range map[string][]string{
		"outbox":                  {"shop outbox replay --all --dry-run", "status is 0", "in UTC", "resume", "republish"},
		"outbox list --help":      {"--status", "pending", "--older-than=TIME", "--limit", "--json"},
		"outbox help show":        {"<id>", "--json"},
		"outbox replay -h":        {"--all", "--dry-run", "--by=NAME", "--topic"},
		"outbox republish -h":     {"--since=TIME", "--until", "--after", "old id"},
		"outbox pause --help":     {"--reason=TEXT", "'*'"},
		"outbox resume -h":        {"<topic>"},
		"dlq":                     {"shop dlq replay --all", "another operator's"},
		"dlq discard an-id -h":    {"--reason=CODE", "--routing-key=KEY", "--older-than=TIME"},
		"dlq replay --unknown -h": nil, // a mistake comes first
	} {
		out, _, err := e.run(t.Context(), strings.Fields(line)...)
		if (words != nil) != errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: error %v", line, err)
		}
		wantAll(t, out, words...)
	}
	if out, _, _ := newEnv(Service{Name: "mails"}, Servers{}, nil, nil).run(t.Context(), "outbox"); strings.Contains(out, "republish") {
		t.Errorf("a service without republish has it in its help:\n%s", out)
	}
}

// TestAMistakeIsNamed before anything is opened, with the flag or the argument, and how to get help.
func TestAMistakeIsNamed(t *testing.T) {
	t.Parallel()
	e := newEnv(shop, Servers{}, nil, nil)
	id := uuid.NewString()
	for line, word := range map[string]string{
		"outbox lst":                             "lst",
		"outbox list --status sent":              `"in_progress","published"`,
		"outbox list --limit 0":                  "--limit must be from 1",
		"outbox list --older-than 1":             "--older-than: it is no time such as 90s",
		"outbox list --topic=":                   "--topic: it is empty",
		"outbox list --colour":                   "--colour",
		"outbox show " + id + " " + id:           id,
		"outbox show order.created":              "<id>",
		"outbox replay":                          "say which",
		"outbox replay " + id + " --all":         "ids do not go together",
		"outbox discard --all --topic a.b":       "leave out either",
		"outbox discard --all --by=":             "--by: it is empty",
		"outbox republish --until 1h":            "--since",
		"outbox republish --since 1h --after 12": "--after",
		"outbox pause order.created":             "--reason",
		"outbox pause --reason why":              "<topic>",
		"outbox resume a b":                      "b",
		"dlq replay A --reason x":                "ids do not go together",
		"dlq list --routing-key= ":               "--routing-key: it is empty",
		"dlq republish --since 1h":               "republish",
	} {
		_, _, err := e.run(t.Context(), strings.Fields(line)...)
		if err == nil || status(err) != 1 {
			t.Errorf("%s: error %v", line, err)
			continue
		}
		wantAll(t, err.Error(), word, "shop "+strings.Fields(line)[0]+" help")
	}
	for _, line := range [][]string{{"dlq", "discard", ""}, {"outbox", "replay", ""}, {"outbox", "resume", ""}, {"dlq", "list", "--reason", ""}} {
		if _, _, err := e.run(t.Context(), line...); err == nil || status(err) != 1 {
			t.Errorf("%q: error %v", line, err)
		}
	}
}

func TestTimesAreReadAsPeopleTypeThem(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 1, 8, 30, 0, 0, time.FixedZone("UTC+1", 3600)) // 07:30 in UTC
	for typed, want := range map[string]string{
		"90s":                       "2026-02-01T07:28:30Z",
		"30m":                       "2026-02-01T07:00:00Z",
		"24h":                       "2026-01-31T07:30:00Z",
		"7d":                        "2026-01-25T07:30:00Z",
		"1d12h":                     "2026-01-30T19:30:00Z",
		"2026-01-31T08:00:00Z":      "2026-01-31T08:00:00Z",
		"2026-01-31T08:00:00.5Z":    "2026-01-31T08:00:00.5Z",
		"2026-01-31T08:00:00+02:00": "2026-01-31T06:00:00Z",
		"2026-01-31 08:00":          "2026-01-31T08:00:00Z",
		"2026-01-31 08:00+02:00":    "2026-01-31T06:00:00Z",
		"2026-01-31":                "2026-01-31T00:00:00Z",
		"07:30":                     "2026-02-01T07:30:00Z",
		"07:31":                     "2026-01-31T07:31:00Z", // not yet today
		"08:00+02:00":               "2026-02-01T06:00:00Z",
	} {
		var m moment
		if err := m.UnmarshalText([]byte(typed)); err != nil || m.asOf(now).UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%s: error %v, want %s", typed, err, want)
		}
	}
	for _, typed := range []string{"", "1", "0s", "-1h", "d", "1d-48h", "99999d999999h", "yesterday", "25:00", "2026-13-01", "2026-01-31 8"} {
		if err := new(moment).UnmarshalText([]byte(typed)); err == nil {
			t.Errorf("%q is a time", typed)
		}
	}
}
