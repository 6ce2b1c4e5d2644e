package edit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// CopyTree copies the files of a clone as they are now. It leaves out what Git ignores: build
// results, and the folders of local servers.
func CopyTree(ctx context.Context, from, to string) error {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = from
	names, err := list.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return fmt.Errorf("listing the files to copy with git: %w; use a clone of the repository", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		err := copyFile(filepath.Join(from, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it is deleted, and that is not committed
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from) //nolint:gosec // of this repository
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), fs.ModePerm); err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode().Perm()) //nolint:gosec // our own folder
}
