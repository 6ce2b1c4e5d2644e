package docs_test

import (
	"strings"
	"testing"

	"example.com/transactional-outbox/test/docs"
)

// TestEachCheckFindsAnError: a check that has found nothing may also have read nothing.
func TestEachCheckFindsAnError(t *testing.T) {
	t.Parallel()
	for _, wrong := range []struct{ check, page, problem string }{
		{"links", "[a](nowhere.md)", "line 1: nowhere.md: no such file"},
		{"links", "# Here it `is`\n\n[a](#here-it-is) [b](#there)", "line 3: #there: no such heading"},
		{"links", "[a](docs/runbook.md#relaynotup) [b](docs/runbook.md#nowhere)", "no such heading"},
		{"quotes", "[nowhere.go](nowhere.go):\n```go\na\n```", "no such file"},
		{"quotes", "[Makefile](Makefile):\n\n```go\na\n```", "line 4: go without its file"},
		{"quotes", "[Makefile](Makefile)\n```sql\na\n```", "line 3: sql without its file"},
		{"quotes", "[Makefile](Makefile):\n```make\ndemo:\n...\n.PHONY:\n```", `line 3: Makefile has no ".PHONY:"`},
		{"names", "`make demo`, make sure, `make nowhere`", "there is no nowhere"},
		{"names", "`TestThePages…`, `TestNowhere`", "there is no TestNowhere"},
		{"names", "`docs/*.md`, `internal/...`, `scripts/nowhere help`", "there is no scripts/nowhere"},
		{"commands", "```console\nmake demo\n```", "line 2: a console block begins"},
		{"length", strings.Repeat("\n", 151), "it has 151 lines"},
	} {
		page, err := docs.Parse("README.md", wrong.page)
		must(t, err)
		if problems := checks[wrong.check](page); len(problems) != 1 || !strings.Contains(problems[0], wrong.problem) {
			t.Errorf("check %s reports %q for %q, want %q", wrong.check, problems, wrong.page, wrong.problem)
		}
	}
}

func TestASettingThatIsWrongOrMissingIsFound(t *testing.T) {
	t.Parallel()
	page, err := docs.ReadFile(root, settingsPage)
	must(t, err)
	for old, wrong := range map[string]string{
		"| `RELAY_LEASE` | `20s` |":        "| `RELAY_LEASE` | `21s` |",
		"| `RELAY_LEASE` |":                "| `RELAY_NOWHERE` |",
		"| `HTTP_RATE_LIMIT` | 0 |":        "| `NOT_READ…` | 0 |",
		"| order-service | default | |":    "| notification-service | default | |",
		"`RELAY_RETRY_CAP` | `1s`, `5m` |": "`RELAY_RETRY_CAP` | `1s`, `6m` |",
	} {
		source := strings.Join(page.Lines, "\n")
		changed, err := docs.Parse(settingsPage, strings.Replace(source, old, wrong, 1))
		must(t, err)
		if !strings.Contains(source, old) || settings(changed) == nil {
			t.Errorf("with %q for %q nothing is found", wrong, old)
		}
	}
}

// TestInvalidBlocksAreErrors: a block that is ignored would not be run or compared.
func TestInvalidBlocksAreErrors(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"an unknown mode":      "<!-- run: compse -->\n```console\n```\n",
		"never without reason": "<!-- run: never -->\n```console\n```\n",
		"before another block": "<!-- run: compose -->\n```sh\n```\n",
		"before a paragraph":   "<!-- run: compose -->\n\ntext\n\n```console\n```\n",
		"at the end":           "<!-- run: compose -->\n",
		"no end":               "```\n$ a\n",
		"four backticks":       "````mermaid\n````\n```\n",
		"tildes":               "~~~go\n~~~\n",
		"a fence after text":   "> ```go\n> ```\n",
	} {
		if _, err := docs.Parse("page.md", source); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}
