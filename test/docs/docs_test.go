package docs_test

import (
	"strings"
	"testing"

	"example.com/transactional-outbox/test/docs"
)

// check returns the errors of a page.
type check func(*repository, docs.Page) []string

var checks = map[string]check{
	"links": links, "functions": functions, "paths": paths, "targets": targets, "tests": tests,
	"names": names, "settings": settings, "consoles": consoles, "length": length, "quotes": quotes,
}

// TestThePagesAreTrue compares the pages with the repository.
func TestThePagesAreTrue(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		for _, check := range checks {
			for _, problem := range check(theRepository(t), page) {
				t.Errorf("%s, %s", page.Path, problem)
			}
		}
	}
}

// maxReadme is the maximum number of lines in the README: one screen to see what it is, and two to
// use it.
const maxReadme = 150

func length(_ *repository, page docs.Page) []string {
	if page.Path == "README.md" && page.Length > maxReadme {
		return []string{errorAt(docs.Text{Line: maxReadme}, "the README is too long: move something to a chapter in docs/")}
	}
	return nil
}

func pages(t *testing.T) (all []docs.Page) {
	t.Helper()
	for _, name := range theRepository(t).pages {
		page, err := docs.ReadFile(root, name)
		must(t, err)
		all = append(all, page)
	}
	return all
}

// wrongPages are pages with an error, and the message of the check with that name.
var wrongPages = []struct{ check, page, problem string }{
	{"links", "[a](nowhere.md)", "line 1: nowhere.md: no such file"},
	{"links", "text\n\n- ![a](docs/nowhere.png)", "line 3: docs/nowhere.png: no such file"},
	{"links", "# Here\n\n[a](#there)", "line 3: #there: no such heading"},
	{"links", "[a](docs/runbook.md#nowhere)", "no such heading"},
	{"links", "[a](Makefile#L99999)", "no such line"},
	{"links", "[a](Makefile#help)", "no such place"},
	{"links", "[a](/README.md)", "relative"},
	{"links", "[a](../outside.md)", "outside"},
	{"links", "[a](http://example.com/)", "not https"},
	{"links", "[a](https://nohost/x)", "https://nohost/x: not https"},
	{"functions", "`internal/stage/stage.go`: `New`, `Nowhere`", "internal/stage/stage.go has no Nowhere"},
	{"functions", "| a | `internal/stage/stage.go`: `Nowhere` |\n|---|---|", "no Nowhere"},
	{"functions", "[`internal/stage/stage.go`](internal/stage/stage.go): `Stage.Nowhere(ctx)`", "no Stage.Nowhere"},
	{"functions", "`internal/stage/nowhere.go`: `New`", "internal/stage/nowhere.go has no New"},
	{"paths", "Run `scripts/nowhere help`.", "there is no scripts/nowhere"},
	{"paths", "`internal/nowhere` and `./internal/nothing/...`", "there is no internal/nothing/..."},
	{"paths", "```sh\ngo test ./internal/nowhere\n```", "line 2: there is no internal/nowhere"},
	{"paths", "`go test -C test ./nowhere`", "there is no test/nowhere"},
	{"paths", "`docs/nowhere*.md`", "there is no docs/nowhere*.md"},
	{"paths", "```\ninternal/   what both use\n  nowhere   small\n```", "line 3: there is no internal/nowhere"},
	{"targets", "`make nowhere`", "make has no target nowhere"},
	{"targets", "`make down nowhere`", "no target nowhere"},
	{"targets", "```console\n$ BENCH_SECONDS=10 make nowhere ONLY=x\n```", "line 2: make has no target nowhere"},
	{"tests", "`TestNowhere`", "there is no test TestNowhere"},
	{"tests", "```\ngo test -run TestNowhere ./...\n```", "line 2: there is no test TestNowhere"},
	{"tests", "`TestNowhere…`", "there is no test TestNowhere…"},
	{"tests", "`TestP1…` in `order`, `stage`", "stage has no test TestP1…"},
	{"names", "`outbox_nowhere_total`", "nothing is called outbox_nowhere_total"},
	{"names", "`outbox_nowhere{status}`", "nothing is called outbox_nowhere"},
	{"names", "`RELAY_NOWHERE=1`", "nothing is called RELAY_NOWHERE"},
	{"names", "`NobodyIsUp`", "nothing is called NobodyIsUp"},
	{"names", "`outbox.Nowhere(ctx)`", "outbox has no Nowhere"},
	{"names", "`postgres.DB.Nowhere`", "postgres has no DB.Nowhere"},
	{"consoles", "```console\nmake demo\n```", "line 2: a console block begins"},
	{"quotes", "<!-- from: nowhere.go -->\n```go\na\n```", "line 3: there is no nowhere.go"},
	{"quotes", "<!-- from: Makefile -->\n```make\nnowhere: a\n```", `line 3: Makefile has no "nowhere: a"`},
	{"quotes", "<!-- from: Makefile -->\n```make\ndemo:\n...\n.PHONY:\n```", `".PHONY:"`},
	{"length", strings.Repeat("\n", maxReadme+1), "too long"},
	{"settings", settingsTable("`ADDRESS`", "`:2`"), "`ADDRESS` is :1 in the code"},
	{"settings", settingsTable("`ADDRESS`, `URL`", "`:1`"), "`ADDRESS`, `URL` is :1, none in the code"},
	{"settings", settingsTable("`NOWHERE`", "1"), "order-service has no setting NOWHERE"},
	{"settings", settingsTable("`OTHERS`", "1"), "order-service has no setting OTHERS"},
	{"settings", settingsTable("`ADDRESS`", "`:1`"), "URL of order-service is in no table"},
}

// correctPages are pages without an error, for the check with that name.
var correctPages = []struct{ check, page string }{
	{"links", "# It is `so`: a b_c, d!\n\n[a](#it-is-so-a-b_c-d) [b](docs/runbook.md#relaynotup) [c](Makefile#L1) [d](internal) http://localhost:3000 <https://go.dev/>"},
	{"links", "# One\n\n## One\n\n[a](#one-1)"},
	{"links", "```\n[a](nowhere.md)\n```\n\n`[a](nowhere.md)`"},
	{"functions", "`internal/postgres/tx.go`: `Args`, `InTx` and `DB.InTx(ctx)`"},
	{"paths", "`scripts/lint`, `docs/*.md`, `go test ./internal/...`, `go test -C test -v ./docs/execute`, `outbox/internal/store/`; `build/chaos.json`"},
	{"paths", "```\norder-service/   takes orders\n  internal/order   what an order is\n```"},
	{"targets", "`make`, `make down`, make sure, `make chaos ONLY=broker-sigkill`, `cmake nowhere`"},
	{"tests", "`TestP1…` in `order`, `outbox`; `FuzzParse`"},
	{"names", "`outbox_backlog`, `RELAY_LEASE`, `RelayNotUp`, `outbox.Append`, `postgres.DB.InTx`, `time.Nowhere`"},
	{"consoles", "```console\n$ make demo\n...\n```"},
	{"quotes", "<!-- from: Makefile -->\n```make\n.PHONY: help\n...\ndemo:\n...\ndown:\n```\n\n```\nnowhere\n```"},
	{"settings", settingsTable("`ADDRESS`, `URL`", "`:1`, none") + "| `OTEL_…` | |\n"},
	{"length", "short"},
}

func settingsTable(names, defaults string) string {
	return "| order-service | default |\n|---|---|\n| " + names + " | " + defaults + " |\n"
}

func TestEachCheckFindsErrors(t *testing.T) {
	t.Parallel()
	for _, f := range wrongPages {
		problems := strings.Join(runCheck(t, f.check, f.page), "\n")
		if !strings.Contains(problems, f.problem) {
			t.Errorf("check %s reports %q for %q, want %q", f.check, problems, f.page, f.problem)
		}
	}
}

func TestNoCheckRejectsACorrectPage(t *testing.T) {
	t.Parallel()
	for _, f := range correctPages {
		if problems := runCheck(t, f.check, f.page); len(problems) > 0 {
			t.Errorf("check %s rejects %q: %q", f.check, f.page, problems)
		}
	}
}

// runCheck runs a check on a page, with this repository and a few settings.
func runCheck(t *testing.T, name, page string) []string {
	t.Helper()
	path := "README.md"
	if name == "settings" {
		path = settingsPage
	}
	parsed, err := docs.Parse(path, []byte(page))
	must(t, err)
	r := *theRepository(t)
	r.settings = []setting{{"order-service", "ADDRESS", ":1"}, {"order-service", "URL", ""}}
	if strings.Contains(page, "OTHERS") {
		r.settings = append(r.settings, setting{"notification-service", "OTHERS", "1"})
	}
	return checks[name](&r, parsed)
}
