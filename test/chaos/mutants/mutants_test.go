package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryEditApplies fails when a change of the code makes a mutant obsolete. To run the mutants
// takes much longer.
func TestEveryEditApplies(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		for _, e := range m.edits {
			content, err := os.ReadFile(filepath.Join("../../..", e.file))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(content), e.old); n != 1 {
				t.Errorf("%s: %s has %d of %q", m.name, e.file, n, e.old)
			}
		}
	}
}

// TestEveryMutantCompiles compiles the packages that a mutant changes, without changing a file.
func TestEveryMutantCompiles(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			folder, replaced := t.TempDir(), map[string]string{}
			packages := []string{"./internal/contract"} // of more than one package, no program is written
			for _, e := range m.edits {
				if err := copyFile(filepath.Join(root, e.file), filepath.Join(folder, e.file)); err != nil {
					t.Fatal(err)
				}
				replaced[filepath.Join(root, e.file)] = filepath.Join(folder, e.file)
				if filepath.Ext(e.file) == ".go" {
					packages = append(packages, "./"+filepath.Dir(e.file))
				}
			}
			if err := m.apply(folder); err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]any{"Replace": replaced})
			if err != nil {
				t.Fatal(err)
			}
			list := filepath.Join(folder, "overlay.json")
			if err := os.WriteFile(list, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay", list}, packages...)...)
			build.Dir = root
			if output, err := build.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

func TestApplyRefusesAnEditThatDoesNotMatch(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "a.go"), []byte("one one"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"two", "one"} { // none, and two of them
		if err := (mutant{edits: []edit{{"a.go", old, "three"}}}).apply(tree); err == nil {
			t.Errorf("replacing %q applied", old)
		}
	}
	if err := (mutant{edits: []edit{{"a.go", "one one", "two"}}}).apply(tree); err != nil {
		t.Error(err)
	}
}

func TestOnlyABrokenPromiseCounts(t *testing.T) {
	t.Parallel()
	if seen, err := brokenPromises([]byte(`[{"pass": false, "broken": {"P3": ["an event is gone", "another"]}}]`)); err != nil || seen != "red: P3 (an event is gone)" {
		t.Errorf("%q, %v", seen, err)
	}
	for name, results := range map[string]string{
		"green":                    `[{"pass": true}]`,
		"no fault":                 `[{"pass": false}]`,
		"the scenario did not run": `[{"pass": false, "broken": {"harness": ["no"]}}]`,
		"no result":                `[]`,
	} {
		if seen, err := brokenPromises([]byte(results)); err == nil {
			t.Errorf("%s: %q", name, seen)
		}
	}
}
