package edit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"example.com/transactional-outbox/test/edit"
)

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestApplyRefusesAnEditThatDoesNotMatch(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	write(t, filepath.Join(tree, "a.go"), "one one", 0o600)
	for _, old := range []string{"two", "one"} { // none, and two of them
		if err := edit.Apply(tree, []edit.Edit{{File: "a.go", Old: old, New: "three"}}); err == nil {
			t.Errorf("replacing %q applied", old)
		}
	}
	if err := edit.Apply(tree, []edit.Edit{{File: "a.go", Old: "one one", New: "two"}, {File: "a.go", Old: "two", New: "three"}}); err != nil {
		t.Error(err)
	}
	if content, _ := os.ReadFile(filepath.Join(tree, "a.go")); string(content) != "three" {
		t.Errorf("the file has %q", content)
	}
}

// TestACopyHasTheFilesAsTheyAreNow and not what Git ignores, or what is deleted.
func TestACopyHasTheFilesAsTheyAreNow(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	git := func(args ...string) {
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Dir = from
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, output)
		}
	}
	git("init", "-q")
	write(t, filepath.Join(from, ".gitignore"), "build/\n", 0o600)
	write(t, filepath.Join(from, "scripts/ü run"), "committed", 0o700)
	write(t, filepath.Join(from, "deleted"), "", 0o600)
	git("add", ".")
	write(t, filepath.Join(from, "scripts/ü run"), "changed", 0o700)
	write(t, filepath.Join(from, "new"), "", 0o600)
	write(t, filepath.Join(from, "build/result"), "", 0o600)
	if err := os.Remove(filepath.Join(from, "deleted")); err != nil {
		t.Fatal(err)
	}
	if err := edit.CopyTree(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"new": true, ".gitignore": true, "deleted": false, "build": false, ".git": false} {
		if _, err := os.Stat(filepath.Join(to, name)); (err == nil) != want {
			t.Errorf("%s is copied: %t, want %t", name, !want, want)
		}
	}
	script := filepath.Join(to, "scripts/ü run")
	if content, _ := os.ReadFile(script); string(content) != "changed" {
		t.Errorf("the copy has %q", content)
	}
	if info, err := os.Stat(script); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the copy cannot be executed: %v, %v", info, err)
	}
	if err := edit.CopyTree(t.Context(), to, filepath.Join(to, "copy")); err == nil {
		t.Error("a folder that is no clone was copied")
	}
}

func TestCompileSeesAnEditThatDoesNotCompile(t *testing.T) {
	t.Parallel()
	for added, want := range map[string]bool{"var _ int\n": true, "var _ int = \"\"\n": false} {
		edits := []edit.Edit{{File: "internal/stage/stage.go", Old: "func New(", New: added + "\nfunc New("}}
		if err := edit.Compile(t.Context(), "../..", edits); (err == nil) != want {
			t.Errorf("%q: %v", added, err)
		}
	}
}
