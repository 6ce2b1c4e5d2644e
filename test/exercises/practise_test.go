package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"example.com/transactional-outbox/test/edit"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheReadersWorkStaysUntilABeginIsAskedFor(t *testing.T) {
	t.Parallel()
	tree := filepath.Join(t.TempDir(), "06")
	e := exercises[5]
	changed := filepath.Join(tree, e.edits[0].File)
	for _, step := range []struct{ fresh, isNew bool }{{false, true}, {false, false}, {true, true}} {
		isNew, err := e.prepare(t.Context(), root, tree, step.fresh)
		if err != nil || isNew != step.isNew {
			t.Fatalf("new: %t, want %t; error %v", isNew, step.isNew, err)
		}
		content, err := os.ReadFile(changed)
		if err != nil {
			t.Fatal(err)
		}
		hasMistake := strings.Contains(string(content), e.edits[0].New)
		if hasMistake != isNew {
			t.Errorf("new: %t, and the mistake is there: %t", isNew, hasMistake)
		}
		write(t, changed, "the reader's work")
	}
}

// TestCopiesAtTheSameTimeDoNotMix: one of them becomes the reader's copy, and it is complete.
func TestCopiesAtTheSameTimeDoNotMix(t *testing.T) {
	t.Parallel()
	const files, rounds, processes = 20, 10, 4
	from, folder := t.TempDir(), t.TempDir()
	if output, err := exec.CommandContext(t.Context(), "git", "init", "-q", from).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for n := range files {
		write(t, filepath.Join(from, fmt.Sprint(n)), "good")
	}
	e := exercise{edits: []edit.Edit{{File: "0", Old: "good", New: "wrong"}}}
	for n := range rounds {
		tree := filepath.Join(folder, fmt.Sprint(n))
		var made atomic.Int32
		var copies sync.WaitGroup
		for range processes {
			copies.Go(func() {
				if isNew, err := e.prepare(t.Context(), from, tree, false); isNew && err == nil {
					made.Add(1)
				}
			})
		}
		copies.Wait()
		copied, err := os.ReadDir(tree)
		if made.Load() != 1 || len(copied) != files || err != nil {
			t.Errorf("%d copies are made, with %d files, want 1 with %d; error %v", made.Load(), len(copied), files, err)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != rounds {
		t.Errorf("%v is left, error %v", left, err)
	}
}

func TestAnExerciseThatCannotBeginLeavesNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	e := exercise{edits: []edit.Edit{{File: "Makefile", Old: "what is not there", New: ""}}}
	if isNew, err := e.prepare(t.Context(), root, filepath.Join(folder, "01"), false); err == nil || isNew {
		t.Errorf("new: %t, error %v", isNew, err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%v is left, error %v", left, err)
	}
}

// TestOnlyTheTestItselfIsRedOrGreen: a compile error is neither.
func TestOnlyTheTestItselfIsRedOrGreen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want result
	}{
		"passes":           {"func TestIt(*testing.T) {}", green},
		"fails":            {"func TestIt(t *testing.T) { t.Error() }", red},
		"another fails":    {"func TestIt(*testing.T) {}\nfunc TestIt2(t *testing.T) { t.Error() }", green},
		"does not exist":   {"func TestOther(*testing.T) {}", broken},
		"no tests":         {"var _ testing.T", broken},
		"does not compile": {"func TestIt(*testing.T) { nothing() }", broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := t.TempDir()
			write(t, filepath.Join(tree, "module/go.mod"), "module m\n")
			write(t, filepath.Join(tree, "module/p/p_test.go"), "package p\n\nimport \"testing\"\n\n"+c.body+"\n")
			e := exercise{module: "module", pkg: "./p", test: "TestIt"}
			if seen, output := e.run(t.Context(), tree); seen != c.want {
				t.Errorf("%s, want %s:\n%s", seen, c.want, output)
			}
		})
	}
}

func TestTheReportSaysWhatToDoNext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		isNew bool
		seen  result
		says  []string
		fails bool
	}{
		"begun":            {true, red, []string{"What goes wrong: " + exercises[4].symptom, "cd build/exercises/05/outbox && go test ", "then run make exercise N=5"}, false},
		"still red":        {false, red, []string{"still red", "look at outbox/internal/store", "--- FAIL"}, false},
		"solved":           {false, green, []string{"solved", "docs/solutions.md#5"}, false},
		"does not compile": {false, broken, []string{"--- FAIL", "compile"}, true},
		"never red":        {true, green, []string{"--- FAIL"}, true},
	} {
		var out strings.Builder
		err := report(&out, 5, exercises[4], c.isNew, c.seen, "{\"msg\":\"log\"}\n--- FAIL: TestIt\n")
		if (err != nil) != c.fails {
			t.Errorf("%s: error %v", name, err)
		}
		for _, want := range c.says {
			if !strings.Contains(strings.ToLower(out.String()), strings.ToLower(want)) {
				t.Errorf("%s: %q is missing:\n%s", name, want, &out)
			}
		}
		if c.seen == red && strings.Contains(out.String(), "msg") {
			t.Errorf("%s: a log line is shown", name)
		}
	}
}
