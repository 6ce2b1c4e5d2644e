package docs_test

import (
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/docs"
)

func TestABlockIsRunWhereItsMarkSays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mark string
		runs []string
	}{
		{"", []string{"", "compose", "processes"}},
		{"<!-- run: compose -->\n", []string{"compose"}},
		{"A paragraph.\n<!-- run: processes -->\n\n", []string{"processes"}},
		{"<!--\nrun: never, because it would take\nan hour\n-->\n", nil},
		{"<!-- something else -->\n", []string{"", "compose", "processes"}},
	} {
		page, err := docs.Parse("", []byte("## Run it\n\n"+test.mark+"```console\n$ make demo\n```\n"))
		must(t, err)
		block := page.Blocks[0]
		for _, mode := range []string{"", "compose", "processes"} {
			if runs := block.Runs(mode); runs != slices.Contains(test.runs, mode) {
				t.Errorf("%q with mode %q: %v", test.mark, mode, runs)
			}
		}
		if block.Heading != "Run it" {
			t.Errorf("its heading is %q", block.Heading)
		}
	}
}

func TestNoOtherLanguageIsRun(t *testing.T) {
	t.Parallel()
	page, err := docs.Parse("", []byte("```\n$ a\n```\n\n```text\n$ b\n```\n\n```sh\n$ c\n```\n"))
	must(t, err)
	for _, block := range page.Blocks {
		if block.Runs("compose") || block.Runs("") {
			t.Errorf("%q runs", block.Lines)
		}
	}
	if len(page.Blocks) != 3 {
		t.Errorf("there are %d blocks", len(page.Blocks))
	}
}

// TestInvalidMarksAreErrors: an ignored mark would change whether its block runs.
func TestInvalidMarksAreErrors(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"an unknown mode":      "<!-- run: compse -->\n```console\n```\n",
		"never without reason": "<!-- run: never -->\n```console\n```\n",
		"before another block": "<!-- run: compose -->\n```sh\n```\n",
		"before a paragraph":   "<!-- run: compose -->\n\ntext\n\n```console\n```\n",
		"at the end":           "<!-- run: compose -->\n",
		"from, at the end":     "<!-- from: Makefile -->\n",
	} {
		if _, err := docs.Parse("page.md", []byte("\n"+source)); err == nil || !strings.HasPrefix(err.Error(), "page.md:2: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCommandsAndTheirOutput(t *testing.T) {
	t.Parallel()
	page, err := docs.Parse("", []byte("1. An item\n\n   ```console\n   $ a \\\n   >   b\n   1\n\n   $ 2\n   $ c\n\n   $ d\n   ```\n"))
	must(t, err)
	commands, err := page.Blocks[0].Commands()
	must(t, err)
	want := []docs.Command{
		{Line: 4, Text: "a \\\n  b", Want: []string{"1", ""}},
		{Line: 8, Text: "2"},
		{Line: 9, Text: "c"},
		{Line: 11, Text: "d"},
	}
	if !slices.EqualFunc(commands, want, func(a, b docs.Command) bool {
		return a.Line == b.Line && a.Text == b.Text && slices.Equal(a.Want, b.Want)
	}) {
		t.Errorf("commands are %+v", commands)
	}
}

func TestTheReadmeComesFirst(t *testing.T) {
	t.Parallel()
	paths, err := docs.All(root)
	must(t, err)
	if len(paths) < 2 || paths[0] != "README.md" || !slices.Contains(paths, "docs/runbook.md") ||
		!slices.Contains(paths, "examples/minimal/README.md") {
		t.Errorf("they are read in the order %q", paths)
	}
}
