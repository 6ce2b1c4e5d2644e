package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestASmallDocument(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"testdata/small.md"}, &out); err != nil {
		t.Errorf("%v:\n%s", err, out.String())
	}
	if n := strings.Count(out.String(), "as expected"); n != 8 {
		t.Errorf("%d commands succeeded, want 8:\n%s", n, out.String())
	}
}

// longRunning runs until SIGTERM. It creates the file "begun" at its start and "ended" at its end.
const longRunning = `sh -c 'trap "touch ended; exit" TERM; touch begun; while :; do sleep 0.01; done'`

// TestErrorsAreFound: a run ends at the first error, because later commands may depend on it.
func TestErrorsAreFound(t *testing.T) {
	for name, f := range map[string]struct{ page, err, shown string }{
		"another output":           {console("$ seq 3", "1", "4", "3"), "page.md:2: the output differs", "-4\n+2\n"},
		"a failure":                {console("$ echo why; false"), "page.md:2: exit status 1", "why\n"},
		"a failure as expected":    {console("$ echo why; false", "why"), "exit status 1", ""},
		"the second one":           {console("$ true", "$ false"), "page.md:3: exit status 1", "as expected"},
		"an error that is printed": {console("$ echo no >&2", "yes"), "the output differs", "+no\n"},
		"an open quote":            {console(`$ echo "`), "page.md:2: exit status", "unexpected EOF"},
		"the end of the shell":     {console("$ exit 0"), "page.md:2: the command ended the shell", ""},
		"nothing to run":           {"# Empty\n", "no console block was chosen", ""},
		"too long":                 {console("$ echo so far; " + longRunning), "page.md:2: not finished in 500ms", "so far"},
	} {
		shown, err := try(t, t.Context(), f.page+"\n"+console("$ touch later"), "-timeout=500ms", "-skip=touch later")
		if err == nil || !strings.Contains(err.Error(), f.err) || !strings.Contains(shown, f.shown) {
			t.Errorf("%s: error %v, shown:\n%s", name, err, shown)
		}
		if name == "nothing to run" {
			continue
		}
		if _, err = try(t, t.Context(), f.page+"\n"+console("$ touch later"), "-timeout=500ms"); err == nil || exists("later") {
			t.Errorf("%s: it went on, with %v", name, err)
		}
		if exists("begun") && !exists("ended") {
			t.Errorf("%s: it still runs", name)
		}
	}
}

func console(lines ...string) string {
	return "```console\n" + strings.Join(lines, "\n") + "\n```\n"
}

// TestTheModeDecides: a page may start the system itself, as `make demo` does.
func TestTheModeDecides(t *testing.T) {
	shown, err := try(t, t.Context(), console("$ mkdir .stack && echo processes >.stack/mode")+
		"<!-- run: compose -->\n"+console("$ false")+
		"<!-- run: never, because it hurts -->\n"+console("$ false")+
		"<!-- run: processes -->\n"+console("$ touch here"))
	if err != nil || !exists("here") || !strings.Contains(shown, "not run here: never, because it hurts") {
		t.Errorf("%v:\n%s", err, shown)
	}
}

func TestAnInterruptEndsTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := try(t, ctx, console("$ sleep 1000")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestBackgroundProcessesEndWithThePage: only processes in their own session go on.
func TestBackgroundProcessesEndWithThePage(t *testing.T) {
	shown, err := try(t, t.Context(), console("$ "+longRunning+" &", "$ until [ -e begun ]; do sleep 0.01; done"))
	if err != nil || !exists("ended") {
		t.Errorf("%v:\n%s", err, shown)
	}
}

// try runs a page in an empty folder and returns the output.
func try(t *testing.T, ctx context.Context, page string, flags ...string) (shown string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("page.md", []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = run(ctx, append(flags, "page.md"), &out)
	return out.String(), err
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func TestWhatMayDiffer(t *testing.T) {
	for name, test := range map[string]struct {
		want, got string
		same      bool
	}{
		"UUIDs":       {`{"id":"01a1fdcf-5fed-71b2-b722-684f3f08e75e"}`, `{"id":"11a1fdcf-5fed-71b2-b722-684f3f08e75f"}`, true},
		"traces":      {"trace 2057d1905555159851ad17d795cfa26d", "trace 3057d1905555159851ad17d795cfa26d", true},
		"times":       {`"2026-11-21T11:13:08.588665Z"`, `"2027-01-02T01:02:03Z"`, true},
		"local times": {"2026-11-21 11:13:08.588+01", "2027-01-02 01:02:03+02:00", true},
		"clocks":      {"at 11:13:08.588.", "at 01:02:03.", true},
		"durations":   {"in 1m2.5s, -56.9 ms late", "in 300ms, 0.0 ms late", true},
		"columns":     {"created    2 orders  ", "created  2 orders", true},
		"numbers":     {"2 orders", "3 orders", false},
		"amounts":     {`"amount":2999`, `"amount":3000`, false},
		"nothing":     {"created 2026-11-21T11:13:08Z", "created", false},
		"ports":       {"localhost:4000", "localhost:4100", false},

		"no line":            {"...\n1", "1", true},
		"many":               {"1\n...\n4", "1\n2\n3\n4", true},
		"the line again":     {"...\n1", "1\n2\n1", true},
		"two":                {"...\n2\n...\n4", "1\n2\n3\n4", true},
		"everything":         {"...", "", true},
		"blank lines":        {"1\n\n2\n", "\n1\n2", true},
		"the wrong order":    {"...\n2\n...\n1", "1\n2", false},
		"more after the end": {"...\n2", "1\n2\n3", false},
		"less":               {"1\n2", "1", false},
		"the end of a line":  {"a b...", "a b c", true},
		"another beginning":  {"a c...", "a b c", false},
		"inside a line":      {"a ... c", "a b c", false},
	} {
		if diff := compare(strings.Split(test.want, "\n"), strings.Split(test.got, "\n")); (diff == "") != test.same {
			t.Errorf("%s: %q", name, diff)
		}
	}
}
