package edit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Compile compiles the packages that edits change, without changing a file. Root is the repository,
// and module is the folder of the module that has the packages.
func Compile(ctx context.Context, root, module string, edits []Edit) (err error) {
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "edit-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	replaced, packages := map[string]string{}, map[string]bool{}
	for _, e := range edits {
		source, changed := filepath.Join(root, e.File), filepath.Join(folder, e.File)
		if replaced[source] == "" {
			if err := copyFile(source, changed); err != nil {
				return err
			}
		}
		replaced[source] = changed
		if filepath.Ext(e.File) == ".go" {
			packages[filepath.Dir(source)] = true
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
	return build(ctx, filepath.Join(root, module), list, packages)
}

// build uses `go list -export`, which compiles, because `go build` also links each program.
func build(ctx context.Context, module, overlay string, packages map[string]bool) error {
	if len(packages) == 0 { // no Go file is changed
		return nil
	}
	args := []string{"list", "-export", "-overlay", overlay}
	list := exec.CommandContext(ctx, "go", slices.AppendSeq(args, maps.Keys(packages))...) //nolint:gosec // our own edits
	list.Dir = module
	if output, err := list.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}
