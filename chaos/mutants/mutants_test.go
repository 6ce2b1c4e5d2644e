package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryEditApplies tells whoever moves the code that a mutant must move along,
// without the minutes that it takes to run them.
func TestEveryEditApplies(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		for _, e := range m.edits {
			content, err := os.ReadFile(filepath.Join("../..", e.file))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(content), e.old); n != 1 {
				t.Errorf("%s: %s has %d of %q", m.name, e.file, n, e.old)
			}
		}
	}
}

func TestApplyRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "a.go"), []byte("one one"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"two", "one"} { // nowhere, and twice
		if err := (mutant{edits: []edit{{"a.go", old, "three"}}}).apply(tree); err == nil {
			t.Errorf("replacing %q applied", old)
		}
	}
	if err := (mutant{edits: []edit{{"a.go", "one one", "two"}}}).apply(tree); err != nil {
		t.Error(err)
	}
}

func TestOnlyABrokenPromiseIsRed(t *testing.T) {
	t.Parallel()
	if seen, err := judge([]byte(`[{"pass": false, "broken": {"P3": ["an event is gone", "another"]}}]`)); err != nil || seen != "red: P3 (an event is gone)" {
		t.Errorf("%q, %v", seen, err)
	}
	for name, results := range map[string]string{
		"green":               `[{"pass": true}]`,
		"no fault":            `[{"pass": false}]`,
		"the harness gave up": `[{"pass": false, "broken": {"harness": ["no"]}}]`,
		"nothing at all":      `[]`,
	} {
		if seen, err := judge([]byte(results)); err == nil {
			t.Errorf("%s: %q", name, seen)
		}
	}
}
