// Package rename_test gives a copy of the repository another module path, and builds it.
package rename_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const renamed = "example.org/acme/shop-2"

func TestTheRenamedTreeBuilds(t *testing.T) {
	t.Parallel()
	path, tree := module(t), copyOfTree(t)
	t.Log(run(t, tree, "scripts/rename", renamed))
	if left := filesWith(t, tree, path); len(left) > 0 {
		t.Errorf("these files still have the old path: %q", left)
	}
	if unformatted := run(t, tree, "gofmt", "-l", "."); unformatted != "" {
		t.Errorf("gofmt would change:\n%s", unformatted)
	}
	run(t, tree, "go", "build", "./...")
	run(t, filepath.Join(tree, "outbox"), "go", "build", "./...")

	const again = "example.net/other"
	run(t, tree, "scripts/rename", again)
	if left := filesWith(t, tree, renamed); len(left) > 0 {
		t.Errorf("renamed again: these files still have the first path: %q", left)
	}
}

func TestWhatIsNoModulePathIsRefused(t *testing.T) {
	t.Parallel()
	for _, argument := range []string{
		"", "shop", "acme/shop", "https://github.com/acme/shop", "github.com", "github.com/", "github.com/acme/", "github.com//shop",
		"github.com/acme/../shop", "github.com/acme/shop v1", "github.com/acme/shop;true", "github.com/a&b/shop", "github.com/acme/shop/v2",
		"GitHub.com/acme/shop", "--module", module(t),
	} {
		if output, err := command(t, root(t), "scripts/rename", argument).CombinedOutput(); err == nil || len(output) == 0 {
			t.Errorf("%q: %v, said %q", argument, err, output)
		}
	}
	if output, err := command(t, root(t), "scripts/rename").CombinedOutput(); err == nil || !bytes.HasPrefix(output, []byte("usage: ")) {
		t.Errorf("no argument: %v, said %q", err, output)
	}
	for _, help := range []string{"help", "-h", "--help"} {
		if output := run(t, root(t), "scripts/rename", help); !strings.HasPrefix(output, "usage: ") {
			t.Errorf("%s said %q", help, output)
		}
	}
}

// root is the repository's folder.
func root(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// module returns the path that the repository has now.
func module(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(run(t, root(t), "go", "list", "-m"))
}

// copyOfTree copies the files that git tracks.
func copyOfTree(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(run(t, root(t), "git", "ls-files", "-z"), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root(t), name))
		if os.IsNotExist(err) {
			continue // it is deleted, and the deletion is not committed
		}
		if err != nil {
			t.Fatal(err)
		}
		if !info.Mode().IsRegular() {
			t.Fatalf("%s is no regular file", name)
		}
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, text, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// filesWith returns the files that have this text.
func filesWith(t *testing.T, tree, text string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// run runs a program that succeeds, and returns its output.
func run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	c := command(t, folder, name, args...)
	var errors strings.Builder
	c.Stderr = &errors
	output, err := c.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, output, errors.String())
	}
	return string(output)
}

func command(t *testing.T, folder, name string, args ...string) *exec.Cmd {
	t.Helper()
	if strings.HasPrefix(name, "scripts/") {
		name = filepath.Join(folder, name)
	}
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = folder, append(os.Environ(), "GOWORK=off")
	return c
}
