package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/edit"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestEveryMistakeAppliesAndCompiles fails when a change of the code makes an exercise obsolete.
// `make exercise N=all` also runs the tests.
func TestEveryMistakeAppliesAndCompiles(t *testing.T) {
	t.Parallel()
	for _, e := range exercises {
		t.Run(e.chapter, func(t *testing.T) {
			t.Parallel()
			if err := edit.Compile(t.Context(), root, e.edits); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEveryExerciseHasItsTest(t *testing.T) {
	t.Parallel()
	for _, e := range exercises {
		files, err := filepath.Glob(filepath.Join(root, e.module, e.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(content), "\nfunc "+e.test+"(t *testing.T) {")
		}
		if !found {
			t.Errorf("%s has no %s", e.pkg, e.test)
		}
		if info, err := os.Stat(filepath.Join(root, e.look)); err != nil || !info.IsDir() {
			t.Errorf("the hint of %s is no folder: %s", e.chapter, e.look)
		}
	}
}

// lastSection is the end of a chapter: its exercise, and the link to the next chapter.
var lastSection = regexp.MustCompile("\n## Exercise\n\n([^#]*`make exercise N=(\\d+)`[^#]*\\(solutions\\.md#(\\d+)\\)[^#]*)$")

func TestEachChapterEndsWithItsExercise(t *testing.T) {
	t.Parallel()
	chapters, err := filepath.Glob(filepath.Join(root, "docs", "[0-9][0-9]-*.md"))
	if err != nil || len(chapters) != len(exercises) {
		t.Fatalf("%d chapters and %d exercises, error %v", len(chapters), len(exercises), err)
	}
	solutions := read(t, "docs/solutions.md")
	for i, chapter := range chapters {
		n, e := fmt.Sprint(i+1), exercises[i]
		if filepath.Base(chapter) != e.chapter+".md" {
			t.Fatalf("exercise %s is for %s, and the chapter is %s", n, e.chapter, chapter)
		}
		section := lastSection.FindStringSubmatch(read(t, "docs/"+e.chapter+".md"))
		if section == nil || section[2] != n || section[3] != n {
			t.Errorf("%s does not end with exercise %s and its solution: %q", e.chapter, n, section)
			continue
		}
		words := strings.Join(strings.Fields(strings.ReplaceAll(section[1], "`", "")), " ")
		if !strings.HasPrefix(strings.ToLower(words), strings.ToLower(e.symptom)) {
			t.Errorf("%s says %q, and make exercise says %q", e.chapter, words, e.symptom)
		}
		if !strings.Contains(solutions, "\n## "+n+"\n") {
			t.Errorf("docs/solutions.md has no %s", n)
		}
		for _, changed := range e.edits {
			if !strings.Contains(solutions, "`"+changed.File+"`") {
				t.Errorf("docs/solutions.md does not name %s", changed.File)
			}
		}
	}
}

func TestAnErrorNamesFresh(t *testing.T) {
	t.Parallel()
	for _, wrong := range [][2]string{{"5", "yes"}, {"5", "2"}, {"", "1"}, {"all", "1"}} {
		if fresh, err := readFresh(wrong[0], wrong[1]); fresh || err == nil || !strings.Contains(err.Error(), "FRESH=") {
			t.Errorf("N=%s FRESH=%s: %t, error %v", wrong[0], wrong[1], fresh, err)
		}
	}
	for text, want := range map[string]bool{"": false, "0": false, "1": true} {
		if fresh, err := readFresh("5", text); fresh != want || err != nil {
			t.Errorf("FRESH=%s: %t, error %v", text, fresh, err)
		}
	}
}

func TestAnErrorNamesTheNumber(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0", "14", "-1", "5x", "five", "1 2", "99999999999999999999"} {
		if _, _, err := find(text); err == nil || !strings.Contains(err.Error(), "N="+text+":") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]int{"1": 1, "05": 5, "13": 13} {
		if n, e, err := find(text); n != want || e.chapter != exercises[want-1].chapter || err != nil {
			t.Errorf("%q: exercise %d of %s, error %v", text, n, e.chapter, err)
		}
	}
}
