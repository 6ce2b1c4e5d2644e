package edit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Compile compiles the packages that edits change, without changing a file. Root is the repository.
func Compile(ctx context.Context, root string, edits []Edit) (err error) {
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "edit-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	replaced, packages := map[string]string{}, map[string][]string{} // by module
	for _, e := range edits {
		source, changed := filepath.Join(root, e.File), filepath.Join(folder, e.File)
		if replaced[source] == "" {
			if err := copyFile(source, changed); err != nil {
				return err
			}
		}
		replaced[source] = changed
		if filepath.Ext(e.File) == ".go" {
			module := Module(root, e.File)
			packages[module] = append(packages[module], filepath.Dir(source))
		}
	}
	if err := Apply(folder, edits); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return err
	}
	list := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return err
	}
	for module, changed := range packages {
		if err := build(ctx, filepath.Join(root, module), list, changed); err != nil {
			return err
		}
	}
	return nil
}

// Module returns the folder of the Go module that has a file or a package. All paths except root
// begin at root.
func Module(root, path string) string {
	for path = filepath.Clean(path); path != "."; path = filepath.Dir(path) {
		if _, err := os.Stat(filepath.Join(root, path, "go.mod")); err == nil {
			return path
		}
	}
	return "."
}

// build uses `go list -export`, which compiles, because `go build` also links each program.
func build(ctx context.Context, module, overlay string, packages []string) error {
	args := append([]string{"list", "-export", "-overlay", overlay}, packages...)
	list := exec.CommandContext(ctx, "go", args...) //nolint:gosec // our own edits
	list.Dir = module
	if output, err := list.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}
