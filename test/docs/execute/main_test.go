package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestASmallDocument(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"testdata/small.md"}, &out, io.Discard); err != nil {
		t.Errorf("%v:\n%s", err, out.String())
	}
	if n := strings.Count(out.String(), "as expected"); n != 8 {
		t.Errorf("%d commands succeeded, want 8:\n%s", n, out.String())
	}
}

// wrongPages are pages with an error, the returned error and the printed output.
var wrongPages = map[string]struct{ page, err, shown string }{
	"another output": {
		console("$ seq 3", "1", "4", "3"), "page.md:2: the output differs",
		"      1\n    - 4\n    + 2\n      3\n",
	},
	"too much output":          {console("$ seq 2", "1"), "the output differs", "      1\n    + 2\n"},
	"too little output":        {console("$ seq 1", "1", "2"), "the output differs", "      1\n    - 2\n"},
	"no output":                {console("$ true", "1"), "the output differs", "    - 1\n"},
	"no match after ...":       {console("$ seq 3", "...", "4"), "the output differs", "      ...\n    - 4\n"},
	"a failure":                {console("$ echo why; false"), "page.md:2: exit status 1", "    why\n"},
	"a failure in a pipe":      {console("$ set -o pipefail; false | cat"), "exit status 1", ""},
	"a failure as expected":    {console("$ echo why; false", "why"), "exit status 1", ""},
	"the second one":           {console("$ true", "$ false"), "page.md:3: exit status 1", "as expected"},
	"an error that is printed": {console("$ echo no >&2", "yes"), "the output differs", "+ no\n"},
	"an open quote":            {console(`$ echo "`, "$ true"), "page.md:2: exit status", "unexpected EOF"},
	"the end of the shell":     {console("$ exit 0"), "page.md:2: the command ended the shell", ""},
	"output without a command": {console("1", "$ seq 1"), `page.md: line 2: a console block begins with "$ command"`, ""},
	"an unknown mark":          {"<!-- run: sometimes -->\n" + console("$ true"), `not "sometimes"`, ""},
	"nothing to run":           {"# Empty\n", "no console block was chosen", ""},
}

func console(lines ...string) string {
	return "```console\n" + strings.Join(lines, "\n") + "\n```\n"
}

func TestErrorsAreFound(t *testing.T) {
	for name, f := range wrongPages {
		shown, err := try(t, f.page)
		if err == nil || !strings.Contains(err.Error(), f.err) || !strings.Contains(shown, f.shown) {
			t.Errorf("%s: error %v, shown:\n%s", name, err, shown)
		}
	}
}

// TestItStopsAtTheFirstError: later commands may depend on the failed one.
func TestItStopsAtTheFirstError(t *testing.T) {
	shown, err := try(t, console("$ false", "$ touch 2.ran")+console("$ touch 3.ran"))
	if ran := ran(t); err == nil || ran != "" {
		t.Errorf("error %v, and %s:\n%s", err, ran, shown)
	}
}

// TestTheModeDecides: a page may start the system itself, as `make demo` does.
func TestTheModeDecides(t *testing.T) {
	shown, err := try(t, console("$ mkdir .stack && echo processes >.stack/mode")+
		"<!-- run: compose -->\n"+console("$ false")+
		"<!-- run: never, because it hurts -->\n"+console("$ false")+
		"<!-- run: processes -->\n"+console("$ touch processes"))
	if err != nil {
		t.Fatalf("%v:\n%s", err, shown)
	}
	if _, err := os.Stat("processes"); err != nil {
		t.Errorf("the block for this mode was not run:\n%s", shown)
	}
	if !strings.Contains(shown, "not run here: never, because it hurts") {
		t.Errorf("the skipped block is not printed:\n%s", shown)
	}
}

func TestChosenBlocks(t *testing.T) {
	page := "# First\n" + console("$ touch 1.ran") + "# Second\n" + console("$ touch 2.ran") + "# Third\n" + console("$ touch 3.ran")
	for flags, want := range map[string]string{
		"-run=First": "1.ran", "-run=touch 2": "2.ran", "-run=^T|^Sec": "2.ran 3.ran", "-run=nowhere": "",
		"-skip=First": "2.ran 3.ran", "-skip=touch 2": "1.ran 3.ran", "-skip=ran": "",
	} {
		shown, err := try(t, page, flags)
		if got := ran(t); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, error %v:\n%s", flags, got, err, shown)
		}
	}
}

func TestAListRunsNothing(t *testing.T) {
	shown, err := try(t, "<!-- run: compose -->\n"+console("$ touch 1.ran"), "-list")
	if ran := ran(t); err != nil || ran != "" || !strings.Contains(shown, "page.md:3  $ touch 1.ran") {
		t.Errorf("error %v, %s:\n%s", err, ran, shown)
	}
}

func TestWithoutFilesItReadsAll(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.Mkdir("docs", 0o700))
	must(t, os.WriteFile("README.md", []byte(console("$ touch here; cd docs")), 0o600))
	must(t, os.WriteFile("docs/a.md", []byte(console("$ ls here", "here")), 0o600)) // each file starts in the root
	var out bytes.Buffer
	if err := run(t.Context(), nil, &out, io.Discard); err != nil {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestWrongCalls(t *testing.T) {
	var help bytes.Buffer
	if err := run(t.Context(), []string{"-h"}, io.Discard, &help); !errors.Is(err, flag.ErrHelp) || help.Len() == 0 {
		t.Errorf("error %v, help %q", err, help.String())
	}
	for name, args := range map[string][]string{"no such file": {"nowhere.md"}, "no regexp": {"-run", "("}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// try runs a page in an empty folder and returns the output.
func try(t *testing.T, page string, flags ...string) (shown string, err error) {
	t.Helper()
	return tryUntil(t, t.Context(), page, flags...)
}

func tryUntil(t *testing.T, ctx context.Context, page string, flags ...string) (shown string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("page.md", []byte(page), 0o600))
	var out bytes.Buffer
	err = run(ctx, append(flags, "page.md"), &out, io.Discard)
	return out.String(), err
}

// ran returns the files that commands have created.
func ran(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("*.ran")
	must(t, err)
	return strings.Join(files, " ")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
