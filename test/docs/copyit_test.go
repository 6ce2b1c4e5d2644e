package docs_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheFolderToCopyBuilds does what docs/copy-it.md says under "Copy one folder".
func TestTheFolderToCopyBuilds(t *testing.T) {
	t.Parallel()
	const from, to = "example.com/transactional-outbox/outbox", "example.org/shop/internal/outbox"
	library, shop := filepath.Join(root, "outbox"), t.TempDir()
	must(t, filepath.WalkDir(library, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(library, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		copied := filepath.Join(shop, "internal/outbox", name)
		switch name {
		case "go.mod": // the shop has one of its own, which requires the same
			copied, content = filepath.Join(shop, name), bytes.Replace(content, []byte(from), []byte("example.org/shop"), 1)
		case "go.sum":
			copied = filepath.Join(shop, name)
		default:
			content = bytes.ReplaceAll(content, []byte(from), []byte(to))
		}
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			return err
		}
		return os.WriteFile(copied, content, 0o600)
	}))
	build := exec.CommandContext(t.Context(), "go", "build", "./...")
	build.Dir = shop
	if output, err := build.CombinedOutput(); err != nil {
		t.Errorf("go build: %v\n%s", err, output)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...")
	list.Dir = shop
	if output, err := list.Output(); err != nil || strings.Contains(string(output), "example.com/") {
		t.Errorf("the copy needs this repository; error %v", err)
	}
}
