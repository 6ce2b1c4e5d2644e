// Package rename_test gives a copy of the repository another module path, builds it, makes a release
// of it, and imports that from an empty module.
package rename_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/env/check"
)

const renamed = "example.org/acme/shop-2"

func TestTheRenamedTreeBuilds(t *testing.T) {
	t.Parallel()
	path, tree := module(t), copyOfTree(t)
	t.Log(run(t, tree, "scripts/rename", path+"/fork")) // it begins with the old path
	t.Log(run(t, tree, "scripts/rename", renamed))
	if left := filesWith(t, tree, path); left != "" {
		t.Errorf("these files still have the old path: %q", left)
	}
	if unformatted := run(t, tree, "gofmt", "-l", "."); unformatted != "" {
		t.Errorf("gofmt would change:\n%s", unformatted)
	}
	run(t, tree, "go", "build", "./...")
	run(t, filepath.Join(tree, "outbox"), "go", "build", "./...")
	wantImportable(t, tree)
}

// wantImportable makes a release of tree, and gets it as a stranger does.
func wantImportable(t *testing.T, tree string) {
	t.Helper()
	run(t, tree, "git", "init", "--quiet")
	run(t, tree, "git", "add", "--all")
	run(t, tree, "git", "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "--quiet", "--message=renamed")
	proxy, empty := t.TempDir(), t.TempDir()
	t.Log(run(t, tree, "scripts/release", "0.1.0", proxy, "HEAD"))
	for _, version := range []string{"2.0.0", "0.01.0", "0.1.0"} { // the last one is there already
		if output, err := command(t, tree, "scripts/release", version, proxy, "HEAD").CombinedOutput(); err == nil {
			t.Errorf("a release of %s said %q", version, output)
		}
	}
	inEmpty := func(args ...string) string {
		c := command(t, empty, "go", args...)
		known := strings.TrimSpace(run(t, empty, "go", "env", "GOMODCACHE")) + "/cache/download" // no network
		c.Env = append(c.Env, "GOFLAGS=-mod=mod", "GONOSUMDB="+renamed+"/*", "GOMODCACHE="+filepath.Join(empty, "modules"),
			"GOPROXY=file://"+proxy+",file://"+known+","+strings.TrimSpace(run(t, empty, "go", "env", "GOPROXY")))
		return check.Run(t, c)
	}
	inEmpty("mod", "init", "example.net/mine")
	check.Must(t, os.WriteFile(filepath.Join(empty, "main.go"), []byte(`package main

import (
	"fmt"

	"`+renamed+`/outbox"
	"`+renamed+`/outbox/rabbitmq"
)

func main() {
	_, err := outbox.NewRelay(nil, rabbitmq.NewBroker("amqp://127.0.0.1", "events"), outbox.RelayConfig{})
	fmt.Print(err)
}
`), 0o600))
	inEmpty("get", renamed+"/outbox@v0.1.0")
	if said := inEmpty("run", "."); said != "outbox: NewRelay needs a pool" {
		t.Errorf("the program says %q", said)
	}
	if said := inEmpty("doc", renamed+"/outbox.Append"); !strings.Contains(said, "func Append(ctx context.Context, tx Tx") {
		t.Errorf("go doc says %q", said)
	}
	module := strings.TrimSpace(inEmpty("list", "-m", "-f", "{{.Dir}}", renamed+"/outbox"))
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "schema.sql"} {
		if _, err := os.Stat(filepath.Join(module, name)); err != nil {
			t.Error(err)
		}
	}
	inEmpty("clean", "-modcache") // its files cannot be written
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
	check.Must(t, err)
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
		check.Must(t, err)
		if !info.Mode().IsRegular() {
			t.Fatalf("%s is no regular file", name)
		}
		text, err := os.ReadFile(filepath.Join(root(t), name))
		check.Must(t, err)
		target := filepath.Join(tree, name)
		check.Must(t, os.MkdirAll(filepath.Dir(target), 0o750))
		check.Must(t, os.WriteFile(target, text, info.Mode().Perm()))
	}
	return tree
}

// filesWith returns the files that have this text.
func filesWith(t *testing.T, tree, text string) string {
	t.Helper()
	found, err := command(t, tree, "grep", "-rlF", text, ".").Output()
	if none, is := errors.AsType[*exec.ExitError](err); !is || none.ExitCode() != 1 {
		check.Must(t, err)
	}
	return string(found)
}

// run runs a program that succeeds, and returns its output.
func run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	return check.Run(t, command(t, folder, name, args...))
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
